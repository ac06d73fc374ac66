"""Outcome of a request, by what its route declares and by who calls: for the table of routes and roles, for docs, and
for the tests that call each route as each role. Nothing here decides: runs.rights.access does."""

from enum import StrEnum

from runs.models import ClusterRole, Role
from runs.rights.access import MEANINGS, OF_STAFF, PERMISSIONS_OF, PERMISSIONS_ON_CLUSTERS, Area, Permission
from runs.rights.access.operations import Rule, RuleKind


class Caller(StrEnum):
    """A caller's relation to the project and cluster of the thing that is asked for."""

    ANONYMOUS = "anonymous"
    REVOKED_TOKEN = "revoked token"
    OUTSIDER = "outsider"
    WITHOUT_SCOPE = "without scope"  # an administrator's token that has every scope but the one that is needed
    VIEWER = "viewer"
    AUDITOR = "auditor"
    MEMBER = "member"
    MAINTAINER = "maintainer"
    OWNER = "owner"
    OPERATOR = "operator"  # of clusters: staff, in no project
    ADMINISTRATOR = "administrator"


class CallOutcome(StrEnum):
    ALLOWED = "yes"
    UNKNOWN = "sign in"  # 401, or the way to the sign-in
    HIDDEN = "not there"  # 404
    FORBIDDEN = "no"  # 403
    FAILED = "failed"  # 500: never wanted


ROLE_OF = {Caller(role.value): role for role in reversed(Role)}  # who may least comes first
OF_THE_ADMIN = frozenset({RuleKind.STAFF, RuleKind.TABLE, RuleKind.READ_ONLY})
STAFF = frozenset({Caller.OPERATOR, Caller.ADMINISTRATOR})
TOKENS_ALONE = frozenset({Caller.REVOKED_TOKEN, Caller.WITHOUT_SCOPE})  # pages take sessions


def outcome(rule: Rule, caller: Caller) -> CallOutcome:
    if rule.kind == RuleKind.PUBLIC:
        return CallOutcome.ALLOWED
    if rule.kind in OF_THE_ADMIN:
        return _in_the_admin(rule, caller)
    if rule.kind in (RuleKind.NODE, RuleKind.SCIM) or caller in (Caller.ANONYMOUS, Caller.REVOKED_TOKEN):
        return CallOutcome.UNKNOWN
    if rule.kind == RuleKind.SIGNED_IN:
        return CallOutcome.ALLOWED
    refused = CallOutcome.HIDDEN if rule.hides else CallOutcome.FORBIDDEN
    if caller == Caller.WITHOUT_SCOPE:
        return refused
    if caller == Caller.ADMINISTRATOR or rule.kind in (RuleKind.LIST, RuleKind.ACCOUNT):
        return CallOutcome.ALLOWED
    if rule.kind in (RuleKind.AUDIT, RuleKind.AUDITORS_OF_ALL):
        holds = rule.kind == RuleKind.AUDIT and caller in ROLE_OF and rule.permission in PERMISSIONS_OF[ROLE_OF[caller]]
        return CallOutcome.ALLOWED if holds or caller == Caller.OPERATOR else refused
    if rule.kind == RuleKind.GROUP:
        return CallOutcome.FORBIDDEN if caller in ROLE_OF else CallOutcome.HIDDEN
    if rule.kind in (RuleKind.ADMINISTRATOR, RuleKind.SITE):
        is_operators = caller == Caller.OPERATOR and rule.permission == Permission.CLUSTERS_MANAGE
        return CallOutcome.ALLOWED if is_operators else refused
    if caller == Caller.OPERATOR:
        return CallOutcome.ALLOWED if rule.kind == RuleKind.MACHINE else CallOutcome.HIDDEN
    if caller == Caller.OUTSIDER:
        return CallOutcome.HIDDEN
    return CallOutcome.ALLOWED if rule.permission in PERMISSIONS_OF[ROLE_OF[caller]] else refused


def _in_the_admin(rule: Rule, caller: Caller) -> CallOutcome:
    """Return the outcome in the admin. Only staff get past the sign-in. The operator has no permission of Django's."""
    if caller not in STAFF:
        return CallOutcome.UNKNOWN
    if rule.kind == RuleKind.STAFF or (rule.kind == RuleKind.TABLE and caller == Caller.ADMINISTRATOR):
        return CallOutcome.ALLOWED
    return CallOutcome.FORBIDDEN


def holders(permission: Permission) -> list[Caller]:
    """Return who has the permission, of those who are known: a line of the table "Who may what"."""
    found = [caller for caller, role in ROLE_OF.items() if permission in PERMISSIONS_OF[role]]
    if permission.area == Area.ACCOUNT:
        found = [Caller.OUTSIDER, *ROLE_OF, Caller.OPERATOR]
    elif permission in OF_STAFF:
        found.append(Caller.OPERATOR)
    return [*found, Caller.ADMINISTRATOR]


# Rights of each caller, in words.

COLUMNS = [*ROLE_OF, Caller.OPERATOR, Caller.ADMINISTRATOR]
HEAD = """# Who may what

A person has a role in a project, by themselves or by a group; what they may do there is in this table. The server asks
the same table, and the page "Who may what" shows it. Administrators may do all of it. Refusals are
[404 or 403](rest.md).
"""
TAIL = """
## Roles in a project

{roles}

A project can have roles of its own (People, "Roles of this project"): permissions that are added to the built-in role
of whoever gets one. Nobody gives, or takes from others, more than they may do themselves. A project keeps an owner.

## Groups

Administrators make groups (in the administration, or `POST /api/v1/groups`). A group has a role in a project, or in
every project, those to come included.
A group can also be let onto a cluster: {clusters}.
A cluster otherwise takes the runs of the projects that it is for.

## Tokens

A token may do what its owner may, cut down to its `scopes` (the names of the table), its `projects` and its end.
`AREA:write` stands for everything in an area that changes something, such as `runs:write`. A token that makes a token
gives no more than it has, and no longer. Your account shows when and from which address each was used last.

What a token made ends with it: when it is revoked, deleted, or its owner is disabled, so are the tokens that it made,
and what these made, and their unused invitations and join tokens are deleted. Lists say by which token a thing was
made. What was done with it stays: a person who came by an invitation, a machine that joined, a role that was given.

A service account owns tokens and is no person. It belongs to one project, has a role there, and never signs in.

A node's key opens what the node's own runs need: to send their files and checkpoints, and to answer for datasets that
it was asked to inspect. A join token lets one machine in, once.

## Routes

`trainyard manage access_matrix` prints every route with every role, as the tests call them.
"""


def roles_document() -> str:
    roles = "\n".join(f"- **{role.label}**: {words}." for role, words in MEANINGS.items())
    clusters = "; ".join(
        f"as {kind.label.lower()} they may {_listed(PERMISSIONS_ON_CLUSTERS[kind])}" for kind in ClusterRole.Kind
    )
    return f"{HEAD}\n{permissions_table()}\n{TAIL.format(roles=roles, clusters=clusters)}"


def permissions_table() -> str:
    columns = COLUMNS[:-1]  # the page says above the table that administrators may do all
    lines = ["| permission | may | " + " | ".join(columns) + " |", "|---|---|" + "---|" * len(columns)]
    for permission in Permission:
        marks = " | ".join("x" if caller in holders(permission) else "" for caller in columns)
        lines.append(f"| `{permission}` | {permission.label} | {marks} |")
    return "\n".join(line.replace("  |", " |") for line in lines)


def _listed(permissions: frozenset[Permission]) -> str:
    return " and ".join(f"`{one}`" for one in Permission if one in permissions)
