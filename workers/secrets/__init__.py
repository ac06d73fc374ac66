"""Secrets on a node: given to ranks by variable or file, and masked in what they print."""
