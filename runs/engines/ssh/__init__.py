"""SSH: hosts of a list, on each of which an attempt's node is started over SSH, and ended."""
