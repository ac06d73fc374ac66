"""PATCH (RFC 7644, 3.5.2), as changes to plain values. Okta sends objects without a path, Entra ID capital letters and
truth values as texts: both are understood."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from runs.people.scim.documents import Email, GroupIn, GroupRef, Operation, PersonName, ScimError, UserIn
from trainyard.contract.base import BadDocument, convert

SELECTED = re.compile(r'members\[\s*value\s+eq\s+"(?P<value>[^"]{1,255})"\s*\]', re.IGNORECASE)
OF_PRIMARY_EMAIL = re.compile(r"emails\[\s*(?:type|primary)\s+eq\s+[^\]]{1,40}\]\.value", re.IGNORECASE)
OPS = ("add", "replace", "remove")


def patched_user(user: UserIn, operations: list[Operation]) -> UserIn:
    """Return the person with the changes. Raises ScimError for a change that cannot be understood."""
    changes: dict[str, Any] = {}
    name = msgspec.structs.asdict(user.name)
    for op, path, value in _steps(operations):
        match path:
            case "active":
                changes["active"] = _truth(value) if op != "remove" else False
            case "username" | "externalid":
                field = {"username": "user_name", "externalid": "external_id"}[path]
                changes[field] = "" if op == "remove" else _text(path, value)
            case "name.givenname" | "name.familyname":
                name[{"name.givenname": "given_name", "name.familyname": "family_name"}[path]] = (
                    "" if op == "remove" else _text(path, value)
                )
            case "name" if isinstance(value, dict):
                name |= msgspec.structs.asdict(_typed(value, PersonName))
            case "emails":
                changes["emails"] = _typed(value, list[Email]) if op != "remove" else []
            case _ if OF_PRIMARY_EMAIL.fullmatch(path):
                changes["emails"] = [Email(_text("emails", value), primary=True)] if op != "remove" else []
            case _:  # of an attribute that this server does not keep
                continue
    new = msgspec.structs.replace(user, name=PersonName(**name), **changes)
    if not new.user_name:
        raise ScimError(400, "userName is required.", "invalidValue")
    return new


def patched_group(group: GroupIn, operations: list[Operation]) -> GroupIn:
    """Return the group with the changes. Raises ScimError for a change that cannot be understood."""
    members = {one.value: one for one in group.members}
    changes: dict[str, Any] = {}
    for op, path, value in _steps(operations):
        if path == "displayname" and op != "remove":
            changes["display_name"] = _text(path, value)
        elif path == "externalid":
            changes["external_id"] = "" if op == "remove" else _text(path, value)
        elif path == "members":
            named = {one.value: one for one in _typed(value if value is not None else [], list[GroupRef])}
            if op == "remove":
                members = {key: one for key, one in members.items() if value is not None and key not in named}
            else:
                members = {**members, **named} if op == "add" else named
        elif (selected := SELECTED.fullmatch(path)) is not None and op == "remove":
            members.pop(selected["value"], None)
        elif path.startswith("members["):
            raise ScimError(400, f"This server does not know the path {path!r}.", "invalidPath")
    return msgspec.structs.replace(group, members=list(members.values()), **changes)


def _steps(operations: list[Operation]) -> Iterator[tuple[str, str, Any]]:
    """Yield (op, path, value); an operation without a path becomes one for each of its values. Paths are in lower case,
    but for what they select."""
    for operation in operations:
        op = operation.op.lower()
        if op not in OPS:
            raise ScimError(400, f"op is one of {', '.join(OPS)}, not {operation.op!r}.", "invalidSyntax")
        if operation.path:
            yield op, _plain(operation.path), operation.value
        elif isinstance(operation.value, dict):
            for path, value in operation.value.items():
                yield op, _plain(path), value
        else:
            raise ScimError(400, "An operation without a path has an object as its value.", "invalidSyntax")


def _plain(path: str) -> str:
    """Return the path without the schema's name before it."""
    bare = path.rpartition(":")[2] if path.lower().startswith("urn:") else path
    return bare if "[" in bare else bare.lower()


def _truth(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ScimError(400, f"active is true or false, not {str(value)[:60]!r}.", "invalidValue")


def _text(path: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > 255:
        raise ScimError(400, f"{path} is a text of at most 255 characters.", "invalidValue")
    return value


def _typed(value: object, kind: Any) -> Any:
    try:
        return convert([value] if isinstance(value, dict) and kind is not PersonName else value, kind)
    except BadDocument as error:
        raise ScimError(400, f"{error}.", "invalidValue") from error
