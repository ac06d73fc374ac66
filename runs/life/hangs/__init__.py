"""Causes of hangs: concluded from the reports of all its nodes together."""
