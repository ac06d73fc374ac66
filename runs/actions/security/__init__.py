"""Verbs about secrets."""
