"""What goes beyond a plain sweep: studies of other tools, and populations."""
