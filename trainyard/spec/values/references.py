"""References of a spec: ``${NAME}``, replaced on the node, and secrets by name, never by value."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field

from trainyard.contract.base import JsonObject
from trainyard.spec.problems import show
from trainyard.spec.values.fields import check_variable

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_REFERENCE = re.compile(
    r"(?:(?P<variable>[A-Za-z_][A-Za-z0-9_]{0,99})=)?(?P<file>file:)?(?P<mine>mine:)?"
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]{0,99})"
)


class SecretReference(NamedTuple):
    """A secret for a rank: a variable with the value of the secret, or with the path of a file that holds it."""

    variable: str
    name: str
    is_file: bool = False
    is_personal: bool = False  # of the person who launched the run, and not of the project


def read_reference(text: str) -> SecretReference:
    """Return what one entry of ``task.secrets`` means. Raises ValueError."""
    found = _REFERENCE.fullmatch(text)
    if found is None:
        raise ValueError(f"must be NAME or VARIABLE=NAME, with file: or mine: before NAME, not {show(text)}")
    name = found["name"]
    return SecretReference(found["variable"] or name, name, bool(found["file"]), bool(found["mine"]))


def references_in(task: JsonObject) -> list[SecretReference]:
    """Return the references of a valid spec's task."""
    return [read_reference(str(one)) for one in task.get("secrets") or []]


def _references(values: list[str]) -> list[str]:
    seen: set[str] = set()
    for text in values:
        variable = read_reference(text).variable
        check_variable(variable)
        if variable in seen:
            raise ValueError(f"must set each variable once, and sets {show(variable)} twice")
        seen.add(variable)
    return values


Secrets = Annotated[list[Annotated[str, Field(max_length=320)]], Field(max_length=50), AfterValidator(_references)]


_VARIABLE = re.compile(r"\$(\$)?\{([A-Za-z_][A-Za-z0-9_]*)\}")

# Variables of every rank, as if it were one of several. PATH, HOME and the like are the node's own affair.
OF_RANKS = {
    "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": "0", "NODE_RANK": "0",
    "MASTER_ADDR": "", "MASTER_PORT": "", "TRAINYARD_RUN": "", "TRAINYARD_ATTEMPT": "", "TRAINYARD_FENCE": "",
    "TRAINYARD_RESTART": "0", "TRAINYARD_NODE": "", "TRAINYARD_OUTPUT": "", "TRAINYARD_CHECKPOINTS": "",
    "TRAINYARD_CACHE": "", "TRAINYARD_ARRAY_INDEX": "0", "TRAINYARD_ARRAY_SIZE": "1", "HOME": "", "TMPDIR": "",
}  # fmt: skip


def names_in(text: str) -> Iterator[str]:
    """Yield the names of the variables that would be replaced."""
    for found in _VARIABLE.finditer(text):
        if not found[1]:
            yield found[2]


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Return the text with its variables replaced. Raises ValueError for one that the environment does not have."""

    def value(found: re.Match[str]) -> str:
        escape, name = found[1], found[2]
        if escape:
            return found[0][1:]
        if name not in environment and not OF_RANKS.get(name):
            raise ValueError(f"task.arguments: {found[0]} is no variable of this rank")
        return environment.get(name, OF_RANKS.get(name, ""))

    return _VARIABLE.sub(value, text)
