"""When ranks agree on their weights: one file for each way, and what all of them have in common."""
