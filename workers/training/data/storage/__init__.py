"""Data on the disk: arrays, the files of samples, and the node's cache of both."""
