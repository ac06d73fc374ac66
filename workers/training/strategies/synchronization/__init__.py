"""Synchronization of weights among ranks: one file for each way, and what all of them have in common."""
