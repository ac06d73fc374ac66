"""Kubernetes: each attempt is one Indexed Job, and each of its pods one node."""
