"""Ranks that make no progress: found by what they mark, by what the kernel says of them, and by their connections."""
