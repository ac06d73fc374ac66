"""What control does while a run lives: comparing, watching, stopping, resizing, going back."""
