"""Formats of times in the admin: Django looks here for the formats of a language."""
