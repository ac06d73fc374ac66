"""Files that are encrypted before they reach a disk: checkpoints on nodes, output files on the server."""
