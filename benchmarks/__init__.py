"""Measurements that print a ratio against a peer or a limit measured in the same run, never a bare time."""
