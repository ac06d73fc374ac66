"""Copies of a run's state in the memory of its nodes: folders of a memory file system, which outlive the ranks."""
