"""Plain values of a run: its status, identifiers, JSON columns by type, refusals. Nothing of Django."""
