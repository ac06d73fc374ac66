"""Requests of people about their own data, and of owners about their projects'."""
