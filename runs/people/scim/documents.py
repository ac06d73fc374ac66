"""SCIM 2.0 documents (RFC 7643, RFC 7644): the part that Okta, Entra ID and their like send and read.

Attributes that are not named here are ignored, as both RFCs allow.
"""

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import msgspec

from trainyard.contract.base import BadDocument, WireStruct, convert

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
LIST = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
ERROR = "urn:ietf:params:scim:api:messages:2.0:Error"
MAX_MEMBERS = 5_000
MAX_OPERATIONS = 1_000

T = TypeVar("T")
Text = Annotated[str, msgspec.Meta(max_length=255)]
Short = Annotated[str, msgspec.Meta(max_length=150)]


class PersonName(WireStruct, rename="camel", omit_defaults=True):
    given_name: Short = ""
    family_name: Short = ""


class Email(WireStruct, omit_defaults=True):
    value: Text = ""
    primary: bool = False
    type: Text = ""


class Meta(WireStruct, rename="camel"):
    resource_type: str
    created: str
    location: str


class UserIn(WireStruct, rename="camel"):
    """A person, as a client writes it."""

    user_name: Annotated[str, msgspec.Meta(min_length=1, max_length=150)]
    external_id: Text = ""
    name: PersonName = msgspec.field(default_factory=PersonName)
    emails: Annotated[list[Email], msgspec.Meta(max_length=20)] = msgspec.field(default_factory=list)
    active: bool | None = None  # None: as it is; who is made so is active

    @property
    def email(self) -> str:
        """The primary address, else the first."""
        primary = [one.value for one in self.emails if one.primary]
        return next(iter([*primary, *(one.value for one in self.emails)]), "")


class GroupRef(WireStruct, omit_defaults=True):
    value: str
    display: str = ""


class UserOut(WireStruct, rename="camel"):
    id: str
    user_name: str
    external_id: str
    name: PersonName
    display_name: str
    emails: list[Email]
    active: bool
    groups: list[GroupRef]
    meta: Meta
    schemas: tuple[str, ...] = (USER,)


class GroupIn(WireStruct, rename="camel"):
    display_name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    external_id: Text = ""
    members: Annotated[list[GroupRef], msgspec.Meta(max_length=MAX_MEMBERS)] = msgspec.field(default_factory=list)


class GroupOut(WireStruct, rename="camel"):
    id: str
    display_name: str
    external_id: str
    members: list[GroupRef]
    meta: Meta
    schemas: tuple[str, ...] = (GROUP,)


class Operation(WireStruct):
    """One step of a PATCH. ``op`` comes in small and in capital letters."""

    op: str
    path: str = ""
    value: Any = None  # a text, a truth value, a list or an object, by path: runs.people.scim.documents reads it


class PatchIn(WireStruct):
    operations: Annotated[list[Operation], msgspec.Meta(min_length=1, max_length=MAX_OPERATIONS)] = msgspec.field(
        name="Operations"
    )


class ListOut(WireStruct, Generic[T], rename="camel"):
    total_results: int
    start_index: int
    items_per_page: int
    resources: list[T] = msgspec.field(name="Resources")
    schemas: tuple[str, ...] = (LIST,)


class ErrorOut(WireStruct, rename="camel", omit_defaults=True):
    status: str
    detail: str
    schemas: tuple[str, ...]
    scim_type: str = ""


ScimType = Literal["", "uniqueness", "invalidFilter", "invalidSyntax", "invalidPath", "invalidValue", "mutability"]


class ScimError(Exception):
    """A refusal, as SCIM's clients read it."""

    def __init__(self, status: int, detail: str, kind: ScimType = "") -> None:
        super().__init__(detail)
        self.status, self.detail, self.kind = status, detail, kind

    def document(self) -> ErrorOut:
        return ErrorOut(status=str(self.status), detail=self.detail, schemas=(ERROR,), scim_type=self.kind)


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


SELECTED = re.compile(r'members\[\s*value\s+eq\s+"(?P<value>[^"]{1,255})"\s*\]', re.IGNORECASE)
OF_PRIMARY_EMAIL = re.compile(r"emails\[\s*(?:type|primary)\s+eq\s+[^\]]{1,40}\]\.value", re.IGNORECASE)
OPS = ("add", "replace", "remove")
TEXT_FIELDS = {"username": "user_name", "externalid": "external_id", "name.givenname": "given_name",
               "name.familyname": "family_name"}  # fmt: skip


def patched_user(user: UserIn, operations: list[Operation]) -> UserIn:
    """Return the person with the changes. Raises ScimError for a change that cannot be understood."""
    changes: dict[str, Any] = {}
    name = msgspec.structs.asdict(user.name)
    for op, path, value in _steps(operations):
        match path:
            case "active":
                changes["active"] = _truth(value) if op != "remove" else False
            case "username" | "externalid" | "name.givenname" | "name.familyname":
                into = name if path.startswith("name.") else changes
                into[TEXT_FIELDS[path]] = "" if op == "remove" else _text(path, value)
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
