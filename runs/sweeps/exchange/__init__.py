"""Sweeps from and to other tools: trials that ended elsewhere, and ours as a study."""
