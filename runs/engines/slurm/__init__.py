"""Slurm: each attempt is one job of its queue, and each machine of the job one node."""
