"""References of a spec to secrets: by name, ``[VARIABLE=][file:][mine:]NAME``, and never by value."""

import re
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
