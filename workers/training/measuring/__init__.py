"""Measurements of a rank by itself: time, bytes, memory, FLOPs and how good the model is."""
