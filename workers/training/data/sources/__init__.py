"""Readers of data in each form: files, text, images, and the sets that are built in."""
