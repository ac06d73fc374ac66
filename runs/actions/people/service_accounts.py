"""Service accounts: owners of tokens that are nobody's. They belong to a project and never sign in."""

from __future__ import annotations

from django.db import IntegrityError, transaction

from runs.actions.people.tokens import require_over_account
from runs.actions.people.ways_in import disable
from runs.models import Membership, Project, Role, User
from runs.rights.access import Permission, require, require_grant, with_rights_held
from runs.values.refused import Refused

MAX_NAME = 60


@with_rights_held
def create_service_account(*, actor: User, project: Project, name: str, role: Role) -> User:
    """Make a service account with a role of the project that is no more than the actor's. Raises ValidationError for
    its name, Refused for a taken one."""
    require(actor, project, Permission.TOKENS_MANAGE)
    require_grant(actor, project, role)
    account = User(username=f"{project.name}.{name.strip()[:MAX_NAME]}", service_of=project)
    account.set_unusable_password()
    account.clean_fields(exclude=["password"])
    account.clean()
    try:
        with transaction.atomic():
            account.save()
            Membership.objects.create(project=project, user=account, role=role)
    except IntegrityError as error:
        raise Refused("name-taken", f"There is already somebody named {account.username}.") from error
    return account


@with_rights_held
def close_service_account(*, actor: User, account: User) -> None:
    """End the account for good: its tokens open nothing. What it launched keeps its name."""
    require_over_account(actor, account)
    with transaction.atomic():
        Membership.objects.filter(user=account).delete()
        disable(account)
