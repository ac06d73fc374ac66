"""Validation of records."""
