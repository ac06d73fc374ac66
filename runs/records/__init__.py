"""What ranks log and save, and what is computed of it: points, lines, media, checkpoints, files, time use."""
