"""Environments that a node builds for users' code: what is in one, where it lies, and who builds it."""
