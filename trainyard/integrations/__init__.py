"""Loggers of other libraries that write to a Trainyard run: a module each, which needs that library."""
