"""Progress of a rank: memory that the rank writes and its supervisor reads."""
