"""Declaration of what an operation asks of its caller: an operation of REST, a page by one method, or a socket.

It is declared on the handler, once. ``admit`` refuses before the handler runs what can be refused without the thing;
loaders that are given the request ask for what its operation declares. The table of routes, "Who may what" and the
tests of every route are made by walking the declarations. A handler without one does not start.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, TypeVar

from django.http import HttpRequest

from runs.rights.access.permissions import Permission, Wanted
from runs.rights.access.roles import Someone

Handler = TypeVar("Handler", bound=Callable[..., Any])
Asker = Someone | HttpRequest  # a request asks for what its operation declares, a person for what the caller names


class RuleKind(StrEnum):
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
    kind: RuleKind
    permission: Permission | None = None
    hides: bool = False  # not there either for who sees the project and has no permission
    by_view: bool = False  # the view asks itself: people come in through it


PUBLIC = Rule(RuleKind.PUBLIC)
SIGNED_IN = Rule(RuleKind.SIGNED_IN)
ARRIVING = SIGNED_IN._replace(by_view=True)  # and for whoever gave a first factor a moment ago
NODE = Rule(RuleKind.NODE)
SCIM = Rule(RuleKind.SCIM)
ADMINISTRATOR = Rule(RuleKind.ADMINISTRATOR, Permission.PEOPLE_MANAGE)
HIDDEN_ADMINISTRATOR = ADMINISTRATOR._replace(hides=True)
GROUP = Rule(RuleKind.GROUP, Permission.PEOPLE_MANAGE)


# Each takes a permission.
thing = partial(Rule, RuleKind.THING)  # and ``hides``
machine = partial(Rule, RuleKind.MACHINE)
lists = partial(Rule, RuleKind.LIST)
site = partial(Rule, RuleKind.SITE)
own = partial(Rule, RuleKind.ACCOUNT)
auditors = partial(Rule, RuleKind.AUDIT)
auditors_of_all = partial(Rule, RuleKind.AUDITORS_OF_ALL)


def operation(rule: Rule) -> Callable[[Handler], Handler]:

    def declare(handler: Handler) -> Handler:
        handler.rule = rule  # type: ignore[attr-defined]
        return handler

    return declare


def asked(who: Asker, wanted: Wanted | None, reading: Permission) -> tuple[Someone, Wanted]:
    """Return the person and what they want to do: of a request what its operation declares, else what the caller names,
    and to read where it names nothing. Raises LookupError for a request whose operation declares no permission."""
    if not isinstance(who, HttpRequest):
        return who, wanted or reading
    rule: Rule | None = getattr(who, "rule", None)
    if rule is None or rule.permission is None or wanted is not None:
        raise LookupError(f"{who.method} {who.path} declares no permission, or another one is named beside it")
    return who.user, rule.permission
