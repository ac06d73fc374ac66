"""What the trials of a sweep say together: pure functions on rows of trials; nothing here reads the database."""
