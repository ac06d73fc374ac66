"""A node that an engine brought for one attempt: its join token, when it leaves, and what dead ones left beside it."""
