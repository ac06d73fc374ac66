"""Records that ranks log and save, and what is computed of them: points, lines, media, checkpoints, files, time use."""
