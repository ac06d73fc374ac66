"""Notices of what happened, for people and projects that have rules for it: made, and sent."""
