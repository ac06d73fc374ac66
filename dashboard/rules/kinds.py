"""What a route may ask of whoever calls it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from runs.rights.access import Permission


class Kind(StrEnum):
    PUBLIC = "public"  # for everybody, known or not
    SIGNED_IN = "signed in"  # for everybody who is known: about themselves, or only what they see
    NODE = "node"  # for a node that seals its request with its key
    SCIM = "scim"  # for an identity provider's client with a token of its own kind
    ADMINISTRATOR = "administrator"
    THING = "thing"  # of a project: not there for who does not see the project, forbidden without the permission
    MACHINE = "machine"  # a cluster or a node: not there for who does not see it, forbidden without the permission
    GROUP = "group"  # of people: not there for who has nothing to do with it, else for administrators
    SITE = "site"  # of no project: forbidden without the permission
    LIST = "list"  # of everything that they see: empty for who sees nothing, refused to a token without the scope
    AUDIT = "audit"  # a list for whoever has the permission in some project; forbidden for others
    AUDITORS_OF_ALL = "auditors of all"  # for those who have it everywhere
    ACCOUNT = "account"  # their own: refused to a token without the scope
    STAFF = "staff"  # of the administration: for all staff
    TABLE = "table"  # of the administration: for administrators, and for staff with Django's permission of the table
    READ_ONLY = "read only"  # of the administration: a change of a table that only the product writes


class Rule(NamedTuple):
    kind: Kind
    permission: Permission | None = None
    is_there: bool = True  # False: where tests have no such thing even its owner is answered 404
    hides: bool = False  # not there either for who sees the project and has no permission


PUBLIC = Rule(Kind.PUBLIC)
SIGNED_IN = Rule(Kind.SIGNED_IN)
NODE = Rule(Kind.NODE)
SCIM = Rule(Kind.SCIM)
ADMINISTRATOR = Rule(Kind.ADMINISTRATOR, Permission.PEOPLE_MANAGE)


GROUP = Rule(Kind.GROUP, Permission.PEOPLE_MANAGE)


def of(permission: Permission, *, is_there: bool = True, hides: bool = False) -> Rule:
    """A thing of a project with which one may do this."""
    return Rule(Kind.THING, permission, is_there, hides)


def machine(permission: Permission) -> Rule:
    """A cluster or a node."""
    return Rule(Kind.MACHINE, permission)


def lists(permission: Permission) -> Rule:
    return Rule(Kind.LIST, permission)


def site(permission: Permission) -> Rule:
    return Rule(Kind.SITE, permission)


def own(permission: Permission) -> Rule:
    return Rule(Kind.ACCOUNT, permission)


def auditors(permission: Permission) -> Rule:
    return Rule(Kind.AUDIT, permission)
