"""Analysis of a sweep's trials together: pure functions on rows of trials; nothing here reads the database."""
