"""Data of batches: sources, the node's cache of them, the order of rows, and what is read ahead."""
