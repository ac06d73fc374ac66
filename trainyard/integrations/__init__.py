"""Loggers of other libraries that write to a Trainyard run: a module each, which needs that library."""

from typing import Any

from trainyard.sdk import Run, current, init


def begin(arguments: dict[str, Any], name: str | None) -> Run:
    """Return the run that this process has begun, else one that is named so where ``arguments`` give no name."""
    try:
        is_begun = not current().is_finished
    except RuntimeError:
        is_begun = False
    return init(**arguments if is_begun else {"name": name, **arguments})
