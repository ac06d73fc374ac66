"""Sweeps beyond the plain ones: studies of other tools, and populations."""
