"""Sweeps: starting and changing them, proposing trials, reading reports, pruning, and the step that drives it all."""
