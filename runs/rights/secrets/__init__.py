"""Secrets of projects and people: encrypted at rest, given to ranks at the last moment. See docs/secrets.md."""
