"""The table of permissions: what one may do, on what, and which built-in role has it.

Loaders ask this table and nothing else. Documents, the page "Who may what" and the tests of every route are made from
it. A permission's value is the name of a token's scope, too.
"""

from enum import StrEnum
from functools import cache
from typing import TypeVar

from django.core.exceptions import PermissionDenied
from django.db.models import TextChoices
from django.http import Http404

from runs.models import ClusterRole, Role


class Area(StrEnum):
    """Kinds of things that a permission is held on."""

    PROJECT = "project"  # by a role in it
    CLUSTER = "cluster"  # by staff, by operators, and by a role in a project that may use it
    SITE = "site"  # by administrators, and by whoever they grant it to
    ACCOUNT = "account"  # by everybody, for what is their own


class Permission(TextChoices):
    """One thing that one may do. The label completes the sentence "may …"."""

    PROJECTS_READ = "projects:read", "see the project and where its time went"
    RUNS_READ = "runs:read", "see runs, their curves, logs, files and checkpoints"
    RUNS_LAUNCH = "runs:launch", "launch, clone, restart, resume, resize and rewind runs, and upload their code"
    RUNS_STOP = "runs:stop", "stop, pause and give up runs"
    RUNS_ANNOTATE = "runs:annotate", "name, tag, note and archive runs"
    RUNS_REPORT = "runs:report", "send points, logs and files of runs that were logged elsewhere"
    RUNS_DELETE = "runs:delete", "delete runs of their own, and decide about files that were left on nodes"
    RUNS_DELETE_OTHERS = "runs:delete-others", "delete runs of others"
    RUNS_ENTER = "runs:enter", "open terminals and apps, forward ports and run commands beside the ranks of runs"
    RUNS_SHARE = "runs:share", "make and revoke links by which guests read runs, comparisons, sweeps and reports"
    JOBS_READ = "jobs:read", "see saved jobs"
    JOBS_EDIT = "jobs:edit", "save and delete jobs"
    DATASETS_READ = "datasets:read", "see datasets"
    DATASETS_EDIT = "datasets:edit", "name, check and delete datasets"
    SWEEPS_READ = "sweeps:read", "see sweeps"
    SWEEPS_LAUNCH = "sweeps:launch", "start and change sweeps"
    SWEEPS_STOP = "sweeps:stop", "stop, pause and resume sweeps"
    SWEEPS_DELETE = "sweeps:delete", "delete sweeps"
    GIT_KEYS_READ = "git-keys:read", "see which repositories there are keys for"
    GIT_KEYS_MANAGE = "git-keys:manage", "add, replace and delete Git keys"
    SECRETS_READ = "secrets:read", "see names and versions of secrets, never values"
    SECRETS_WRITE = "secrets:write", "set, replace and delete secrets"
    MEMBERS_READ = "members:read", "see who is in the project"
    MEMBERS_MANAGE = "members:manage", "invite and remove people, give people and groups roles up to their own"
    INVITATIONS_READ = "invitations:read", "see open invitations"
    ROLES_MANAGE = "roles:manage", "make and change the project's own roles"
    OWNERS_MANAGE = "owners:manage", "make and unmake owners"
    PRIVACY_MANAGE = "privacy:manage", "set how long data is kept, and in which regions it may lie"
    TOKENS_READ = "tokens:read", "see service accounts and their tokens"
    TOKENS_MANAGE = "tokens:manage", "make and remove service accounts and their tokens"
    AUDIT_READ = "audit:read", "read the audit log"
    CLUSTERS_READ = "clusters:read", "see clusters and their nodes"
    CLUSTERS_USE = "clusters:use", "run on clusters, and have their nodes checked"
    CLUSTERS_MANAGE = "clusters:manage", "make and change clusters, let machines in, drain and remove nodes"
    PROJECTS_CREATE = "projects:create", "make projects"
    PEOPLE_MANAGE = "people:manage", "manage groups, and see and revoke tokens of others"
    ACCOUNT_READ = "account:read", "see their own tokens"
    ACCOUNT_MANAGE = "account:manage", "make and revoke their own tokens, and keep their settings"

    @property
    def topic(self) -> str:
        """The subject of the permission: ``runs`` of ``runs:read``."""
        return self.value.partition(":")[0]

    @property
    def area(self) -> Area:
        return _ELSEWHERE.get(self, Area.PROJECT)


P = Permission
_ELSEWHERE = {
    **dict.fromkeys((P.CLUSTERS_READ, P.CLUSTERS_USE, P.CLUSTERS_MANAGE), Area.CLUSTER),
    **dict.fromkeys((P.PROJECTS_CREATE, P.PEOPLE_MANAGE), Area.SITE),
    **dict.fromkeys((P.ACCOUNT_READ, P.ACCOUNT_MANAGE), Area.ACCOUNT),
}

_VIEWER = frozenset(
    {P.PROJECTS_READ, P.RUNS_READ, P.JOBS_READ, P.DATASETS_READ, P.SWEEPS_READ, P.MEMBERS_READ, P.CLUSTERS_READ}
)
_AUDITOR = _VIEWER | {P.AUDIT_READ, P.INVITATIONS_READ, P.TOKENS_READ, P.SECRETS_READ, P.GIT_KEYS_READ}
_MEMBER = _VIEWER | {
    P.RUNS_LAUNCH, P.RUNS_STOP, P.RUNS_ANNOTATE, P.RUNS_REPORT, P.RUNS_DELETE, P.RUNS_ENTER, P.RUNS_SHARE,
    P.JOBS_EDIT, P.DATASETS_EDIT, P.SWEEPS_LAUNCH, P.SWEEPS_STOP, P.SWEEPS_DELETE, P.GIT_KEYS_READ, P.SECRETS_READ,
    P.CLUSTERS_USE,
}  # fmt: skip
_MAINTAINER = (
    _MEMBER | _AUDITOR | {P.RUNS_DELETE_OTHERS, P.GIT_KEYS_MANAGE, P.SECRETS_WRITE, P.MEMBERS_MANAGE, P.TOKENS_MANAGE}
)
PERMISSIONS_OF: dict[Role, frozenset[Permission]] = {
    Role.VIEWER: _VIEWER,
    Role.AUDITOR: _AUDITOR,
    Role.MEMBER: _MEMBER,
    Role.MAINTAINER: _MAINTAINER,
    Role.OWNER: _MAINTAINER | {P.ROLES_MANAGE, P.OWNERS_MANAGE, P.PRIVACY_MANAGE},
}
PERMISSIONS_ON_CLUSTERS: dict[ClusterRole.Kind, frozenset[Permission]] = {
    ClusterRole.Kind.RUNNER: frozenset({P.CLUSTERS_READ, P.CLUSTERS_USE}),
    ClusterRole.Kind.OPERATOR: frozenset({P.CLUSTERS_READ, P.CLUSTERS_USE, P.CLUSTERS_MANAGE}),
}
# Permissions of staff, the operators of all clusters, everywhere.
OF_STAFF = frozenset({P.CLUSTERS_READ, P.CLUSTERS_USE, P.CLUSTERS_MANAGE, P.AUDIT_READ})
EVERYTHING = frozenset(Permission)
# Permissions that a custom role may hold: those of roles in a project.
IN_PROJECTS = PERMISSIONS_OF[Role.OWNER]
# A token for some projects does nothing outside of them.
OUTSIDE_PROJECTS = EVERYTHING - IN_PROJECTS

MEANINGS: dict[Role, str] = {
    Role.OWNER: "everything, and makes other owners",
    Role.MAINTAINER: "also invites people and deletes others' runs",
    Role.MEMBER: "launches, stops and restarts runs",
    Role.AUDITOR: "sees everything and the audit log, changes nothing",
    Role.VIEWER: "sees everything, changes nothing",
}

Wanted = Permission | Role  # a role stands for everything that it may do


def needed(wanted: Wanted) -> frozenset[Permission]:
    return PERMISSIONS_OF[wanted] if isinstance(wanted, Role) else frozenset({wanted})


@cache
def least_role(wanted: Wanted) -> Role:
    """Return the weakest built-in role that may do this: for sentences."""
    if isinstance(wanted, Role):
        return wanted
    enough = [role for role, held in PERMISSIONS_OF.items() if wanted in held]
    ordinary = [role for role in enough if role != Role.AUDITOR]
    return next(iter(ordinary or enough), Role.OWNER)


@cache
def known_scopes() -> dict[str, frozenset[Permission]]:
    """Return what each scope of a token stands for: a permission, or all of a topic that change something."""
    found = {permission.value: frozenset({permission}) for permission in Permission}
    for topic in dict.fromkeys(permission.topic for permission in Permission):
        changing = frozenset(one for one in Permission if one.topic == topic and not one.value.endswith(":read"))
        if changing:
            found.setdefault(f"{topic}:write", changing)
    return found


# The two refusals. Both are Django's own too, so that a view that forgets to catch them still refuses.

Thing = TypeVar("Thing")


class NotFound(Http404):
    """There is no such thing, or none that this person may see."""


class Forbidden(PermissionDenied):
    """This person may see the thing, but not do this with it."""


def or_not_found(thing: Thing | None, sentence: str) -> Thing:
    """Return the thing. Raises NotFound with the sentence where there is none."""
    if thing is None:
        raise NotFound(sentence)
    return thing
