"""Rows of the audit and of secrets."""
