"""How far a rank is: memory that the rank writes and its supervisor reads."""
