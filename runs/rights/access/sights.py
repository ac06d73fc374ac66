"""Projects that many people see at a moment, as plain values: for sockets, which ask for all people at once."""

from collections.abc import Collection
from dataclasses import dataclass

from runs.models import GroupRole, Membership, Run, Sweep, User
from runs.rights.access.permissions import Permission
from runs.rights.access.roles import has_scope


@dataclass(frozen=True)
class Sight:
    """The projects whose runs a person sees, by id; None: all there are."""

    projects: frozenset[str] | None

    def sees(self, project_id: str | None) -> bool:
        """Return whether they see what is in that project; None is the project of what there is not."""
        return project_id is not None and (self.projects is None or project_id in self.projects)


NOTHING = Sight(frozenset())


def sights(users: Collection[User]) -> dict[int, Sight]:
    """Return the sight of each person by their id, whatever token they act by: visible_projects() for many, in one
    query."""
    projects: dict[int, set[str]] = {user.pk: set() for user in users if user.is_active}
    everywhere = {user.pk for user in users if user.is_superuser}
    own = Membership.objects.filter(user__in=projects).values_list("user_id", "project_id")
    by_group = GroupRole.objects.filter(group__user__in=projects).values_list("group__user", "project_id")
    for user_id, project_id in own.union(by_group):
        if project_id is None:
            everywhere.add(user_id)
        else:
            projects[user_id].add(project_id)
    return {
        user.pk: Sight(None if user.is_active and user.pk in everywhere else frozenset(projects.get(user.pk, ())))
        for user in users
    }


def sight_by_token(user: User, sight: Sight) -> Sight:
    """Return what is left of the person's sight for the token that they act by."""
    return reach_by_token(user, sight) if has_scope(user, Permission.RUNS_READ) else NOTHING


def reach_by_token(user: User, sight: Sight) -> Sight:
    """Return the part of the person's sight that lies in the projects of the token, whatever its scopes are."""
    if user.token is None or user.token.project_ids is None:
        return sight
    mine = frozenset(user.token.project_ids)
    return Sight(mine if sight.projects is None else mine & sight.projects)


def projects_of_runs(run_ids: Collection[str]) -> dict[str, str]:
    """Return the project of each of the runs that there are: who sees the project sees the run."""
    return dict(Run.objects.filter(pk__in=run_ids).values_list("pk", "project_id"))


def projects_of_sweeps(sweep_ids: Collection[str]) -> dict[str, str]:
    """Return the project of each of the sweeps that there are: who sees the project sees the sweep."""
    return dict(Sweep.objects.filter(pk__in=sweep_ids).values_list("pk", "project_id"))
