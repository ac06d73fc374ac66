"""When a run may start and by when it is to end, what ends before it, and the runs of an array."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from trainyard.spec.problems import show
from trainyard.spec.values.fields import Name, Needs, Part, more_where

MOST_BEFORE = 100  # runs that one waits for
MOST_OF_AN_ARRAY = 1_000
SIZE = "array.size"


def moment_of(text: str) -> datetime:
    """Return the time that a text in ISO 8601 names, in UTC where it names no zone. Raises ValueError."""
    try:
        found = datetime.fromisoformat(text.strip())
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"must be a time such as 2026-11-28T06:00Z, not {show(text)}") from None
    if not 2000 <= found.year < 3000:
        raise ValueError(f"must be a time from 2000 to 2999, not {show(text)}")
    return found.replace(microsecond=0)


def _moment(value: object) -> object:
    """Accept a time, or none, and write it in one way."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return ""
    return moment_of(value).isoformat().replace("+00:00", "Z") if isinstance(value, str) else value


Moment = Annotated[str, Field(max_length=40), BeforeValidator(_moment)]


class After(Part):
    """Runs that end before this one starts."""

    runs: Annotated[list[Name], Field(max_length=MOST_BEFORE)] = more_where(
        [],
        "After runs",
        "Runs of the project that end before it starts, each by its id or its name, of which the newest counts.",
    )
    on: Literal["ok", "any"] = more_where(
        "ok",
        "After their",
        "ok waits until all have succeeded, and the run is cancelled where one does not; any waits until they have "
        "ended in any way.",
    )


class Array(Part):
    """Runs that differ in a number from 0, which their ranks find."""

    size: int = more_where(
        0,
        "Array",
        "How many runs are launched, named NAME-0, NAME-1 and so on; their ranks find TRAINYARD_ARRAY_INDEX and "
        "TRAINYARD_ARRAY_SIZE. 0 is one run without a number.",
        within=(0, MOST_OF_AN_ARRAY),
    )
    at_once: int = more_where(
        0,
        "At once",
        "How many of the array have nodes at a time; 0 is as many as there is room for.",
        within=(0, MOST_OF_AN_ARRAY),
        needs=Needs(SIZE),
    )
    index: int = more_where(
        -1,
        "Of the array",
        "The number of the only run that is launched; -1 launches all. A run of an array keeps its own here, so that a "
        "clone has the same.",
        within=(-1, MOST_OF_AN_ARRAY - 1),
        needs=Needs(SIZE),
    )

    @property
    def launches_many(self) -> bool:
        return self.size > 0 and self.index < 0
