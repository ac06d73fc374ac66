"""Inputs of a run: code from repositories, and datasets."""
