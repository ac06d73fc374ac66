"""What of a cluster's settings is the server's: what it runs or reads itself, and where secrets go."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

Places = frozenset[str]


class Guarded(NamedTuple):
    """``on_server``, by field: the program, the file or the address that this server uses with rights of its own.
    ``places``, by secret: where it opens something or is sent to. ``identity``: the field that is empty, so that the
    server asks the other system in its own name."""

    on_server: Mapping[str, object] = {}
    places: Mapping[str, Places] = {}
    identity: str = ""


def problems(before: Guarded, after: Guarded, *, kept: Collection[str], is_administrator: bool) -> dict[str, str]:
    """Return what is wrong with a change, by field. ``kept``: the secrets that were given before and not anew."""
    found = {}
    if not is_administrator:
        if after.identity and after.identity != before.identity:
            found[after.identity] = "Only an administrator leaves it empty: it lends the server's own identity."
        for field, value in after.on_server.items():
            if value != before.on_server.get(field):
                found[field] = "Only an administrator changes this: the server uses it with rights of its own."
    for name in kept:
        if new := after.places.get(name, Places()) - before.places.get(name, Places()):
            found[name] = f"Give it anew: it was given for another place than {min(new)}."
    return found
