"""Filters of lists (RFC 7644, 3.4.2.2): one comparison by ``eq``, which is what clients send to find a person or a
group before they make one."""

import json
import re
from typing import NamedTuple

from runs.people.scim.documents import ScimError

MAX_CHARACTERS = 500
EQUALS = re.compile(
    r'\s*(?P<attribute>[A-Za-z][\w.:-]{0,99})\s+eq\s+(?P<value>"(?:[^"\\]|\\.){0,300}")\s*', re.IGNORECASE
)


class Comparison(NamedTuple):
    attribute: str  # in small letters
    value: str


def parse_filter(text: str, known: frozenset[str]) -> Comparison | None:
    """Return the comparison; None for no filter. Raises ScimError for any other filter."""
    if not text.strip():
        return None
    found = EQUALS.fullmatch(text) if len(text) <= MAX_CHARACTERS else None
    if found is None:
        raise ScimError(400, 'This server knows filters such as userName eq "ann@example.com".', "invalidFilter")
    attribute = found["attribute"].rpartition(":")[2].lower()
    if attribute not in known:
        raise ScimError(400, f"This server filters by {', '.join(sorted(known))}.", "invalidFilter")
    try:
        value = json.loads(found["value"])
    except ValueError as error:
        raise ScimError(400, "The value of the filter is no JSON text.", "invalidFilter") from error
    return Comparison(attribute, str(value))
