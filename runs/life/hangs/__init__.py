"""What keeps a run that makes no step: concluded from the reports of all its nodes together."""
