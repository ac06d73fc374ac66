"""SCIM 2.0 documents (RFC 7643, RFC 7644): the part that Okta, Entra ID and their like send and read.

Attributes that are not named here are ignored, as both RFCs allow.
"""

from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec

from trainyard.contract.base import WireStruct

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
LIST = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
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
    value: Any = None  # a text, a truth value, a list or an object, by path: runs.people.scim.patching reads it


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
