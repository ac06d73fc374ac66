"""Amazon SageMaker's training jobs: one for each attempt, one machine of it for each node."""
