"""Paths of files that lie in a run's code."""

import unicodedata
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, Field

from trainyard.spec.problems import show


def file_in_code(value: str) -> str:
    """Accept a path inside the code's folder. Raises ValueError."""
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or not path.name or "\\" in value or has_control(value):
        raise ValueError(f"must be a path inside the code's folder, such as requirements.txt, not {show(value)}")
    return value


def has_control(value: str) -> bool:
    return any(unicodedata.category(char) == "Cc" for char in value)


def file_or_nothing(value: str) -> str:
    return file_in_code(value) if value else value


FileInCode = Annotated[str, Field(max_length=500), AfterValidator(file_or_nothing)]
