"""Changes of how a recipe trains in mid-training: a schedule that population based training has found, say."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from trainyard.contract.base import JsonObject
from trainyard.spec.problems import show
from trainyard.spec.values.fields import Number, Part, maps_or_lines, more_train, number_in

MOST_CHANGES = 1_000
CHANGEABLE = ("learning_rate", "weight_decay", "batch_size", "gradient_clip")  # fields of train


class SettingsChange(Part):
    """Settings that change behind step ``behind``. A field that is not named stays as it was."""

    behind: Annotated[int, Field(ge=1, le=1_000_000_000)]
    learning_rate: Annotated[Number, Field(gt=0, le=1_000)] | None = None
    weight_decay: Annotated[Number, Field(ge=0, le=1_000)] | None = None
    batch_size: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    gradient_clip: Annotated[Number, Field(ge=0, le=1e9)] | None = None

    @property
    def values(self) -> dict[str, float]:
        return {name: value for name in CHANGEABLE if (value := getattr(self, name)) is not None}


def change_of(line: str) -> JsonObject:
    """Return the map that a line such as ``100: learning_rate=0.002 batch_size=64`` means. Raises ValueError."""
    step, colon, rest = line.partition(":")
    words = [word.partition("=") for word in rest.split()]
    if not colon or not words or any(name not in CHANGEABLE or not equals for name, equals, _ in words):
        accepted = ", ".join(CHANGEABLE)
        raise ValueError(f"must be STEP: NAME=VALUE …, where NAME is {accepted}, not {show(line)}")
    return {"behind": number_in(step), **{name: number_in(text) for name, _, text in words}}


def line_of(change: JsonObject) -> str:
    """Return the change as a line; ``change_of`` reads it."""
    words = (f"{name}={change[name]}" for name in CHANGEABLE if change.get(name) is not None)
    return f"{change['behind']}: {' '.join(words)}"


Changes = Annotated[list[SettingsChange], Field(max_length=MOST_CHANGES), maps_or_lines(change_of)]


def changes_field() -> Any:
    """Declare the field ``changes`` of recipes that train."""
    return more_train(
        [],
        "Changes",
        "What changes in mid-training, a line for each, such as 100: learning_rate=0.002 batch_size=64 for all "
        "steps behind step 100. learning_rate is the peak of the schedule, which goes on.",
        kind="lines",
    )


def changes_of_line(values: Sequence[tuple[int, JsonObject]]) -> list[JsonObject]:
    """Return the entries of ``changes`` for values of train by the step behind which they begin. What stays as it was
    is left out; the first are those of the base spec."""
    known: JsonObject = {}
    found = []
    for behind, settings in values:
        new = {name: value for name, value in settings.items() if name in CHANGEABLE and known.get(name) != value}
        known |= new
        if behind and new:
            found.append({"behind": behind, **new})
    return found
