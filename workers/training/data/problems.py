"""What is wrong with somebody's data, in words for that person."""

from __future__ import annotations


class DataProblem(ValueError):
    """Data that cannot be trained on. The message is one sentence that names the field or the file, the row where
    there is one, and what to do; the run is FAILED with it."""
