"""The REST calls of nodes: bodies and answers, by what they are about."""
