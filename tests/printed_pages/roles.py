"""``python -m tests.printed_pages.roles`` prints docs/roles.md: who may what, by the table that the server asks."""

from __future__ import annotations

from tests.printed_pages import django_is_ready

django_is_ready()

from dashboard.pages.people.rights import COLUMNS, holders  # noqa: E402
from runs.models import ClusterRole  # noqa: E402
from runs.rights.access import MEANINGS, PERMISSIONS_ON_CLUSTERS, Permission  # noqa: E402

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

[A table for a spreadsheet](access_matrix.csv) has every route with what becomes of a request of each role, as the
tests call them.
"""


def documented() -> str:
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


if __name__ == "__main__":
    print(documented(), end="")
