"""The REST API as the terminal uses it."""
