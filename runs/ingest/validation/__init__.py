"""Which records are valid."""
