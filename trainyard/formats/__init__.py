"""Figures, names and media as bytes and text."""
