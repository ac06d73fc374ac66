"""The newest states of a training in the memory of its nodes, so that a restart need not read from storage.

Every so many steps each rank copies its part into a file in memory, which outlives it (after Wang et al. 2023, "GEMINI:
Fast Failure Recovery in Distributed Training with In-Memory Checkpoints"). A state counts once all parts of it are
whole. Two are kept: one that counts, and the one that is being taken.
"""
