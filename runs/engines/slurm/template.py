"""Values of a cluster's settings with `{name}` fields, which each run fills in: `account={project}`.

There are only the fields of the list, and what fills one in is one plain word or the submission is refused. So a
template can say nothing that the settings themselves could not.
"""

import re
from collections.abc import Mapping

from runs.engines.machine_system import MachineRequest

FIELD = re.compile(r"\{([^{}]*)\}")
WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,59}")
FIELDS = ("attempt", "cluster", "nodes", "owner", "project", "run", "slots")
EXAMPLE = "x"  # what a field is checked as


class BadField(ValueError):
    """A field cannot be filled in for this run; the message is a sentence."""


def template_problem(text: str) -> str:
    """Return what is wrong with the fields of a value, as the end of a sentence; empty where nothing is."""
    unknown = next((name for name in FIELD.findall(text) if name not in FIELDS), None)
    if unknown is not None:
        return f"one of the fields {', '.join(f'{{{name}}}' for name in FIELDS)}, not {{{unknown[:40]}}}"
    if set(FIELD.sub("", text)) & set("{}"):
        return f"fields such as {{project}} with both of their braces, not {text[:100]!r}"
    return ""


def without_fields(text: str) -> str:
    """Return the value with an example in the place of each field, for the checks of plain values."""
    return FIELD.sub(EXAMPLE, text)


def has_fields(text: str) -> bool:
    return FIELD.search(text) is not None


def values_of(request: MachineRequest, cluster: str) -> dict[str, str]:
    return {
        "attempt": request.attempt,
        "cluster": cluster,
        "nodes": str(request.num_machines),
        "owner": request.owner,
        "project": request.project,
        "run": request.name,
        "slots": str(request.slots),
    }


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return the text with the values filled in. Raises BadField for a value that is not one plain word."""

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if not WORD.fullmatch(values.get(name, "")):
            raise BadField(
                f"The cluster's settings have {text!r}, and the {name} of this run is {values.get(name, '')[:60]!r}: "
                "no word of letters, digits and . _ @ + - that begins with a letter or digit."
            )
        return values[name]

    return FIELD.sub(fill, text)
