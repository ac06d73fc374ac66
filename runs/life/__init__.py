"""Work of control while a run lives: comparing, watching, stopping, resizing, going back."""
