"""Setting and deleting secrets of projects and people, and changing the key that wraps them."""

from django.core.exceptions import ValidationError

from runs.models import Project, Secret, User
from runs.rights.access import Forbidden, Permission, is_administrator, or_not_found, require, require_scope
from runs.rights.audit.recording import describe
from runs.rights.secrets import store
from runs.rights.secrets.key_stores import KeyProblem
from runs.values.refused import Refused

MOST = 500  # of one project or person


def set_secret(*, actor: User, name: str, value: str, project: Project | None = None) -> Secret:
    """Make the value the newest of the name: of the project, or without one of the actor. Raises ValidationError, by
    field and without the value, and Refused where there is no key."""
    owner = _owner(actor, project)
    problems: dict[str, list[str]] = {}
    try:
        Secret(name=name, project=project, person=None if project else actor).clean()
    except ValidationError as error:
        problems |= error.message_dict
    if why := store.problem_of(value):
        problems["value"] = [why]
    if problems:
        raise ValidationError(problems)
    if store.secrets_of(owner).count() >= MOST:
        raise Refused("too-many", f"There are {MOST} secrets already; delete some that nobody uses.")
    try:
        secret = store.keep(owner=owner, name=name, value=value, by=actor)
    except KeyProblem as error:
        raise Refused("no-key", str(error)) from error
    describe(object=f"secret {name}", after={f"secret {name}": {"version": secret.version}}, before={})
    return secret


def delete_secret(*, actor: User, name: str, project: Project | None = None) -> None:
    """Forget a secret with all its versions. Runs that name it cannot start any more."""
    secret = store.secrets_of(_owner(actor, project)).filter(name=name).first()
    secret = or_not_found(secret, f"There is no secret {name!r}.")
    secret.delete()
    describe(object=f"secret {name}", before={f"secret {name}": {"version": secret.version}}, after={})


def rotate_secrets_key(*, actor: User) -> store.Rotation:
    """Wrap all secrets with a new key. For administrators. Raises Forbidden, and Refused where the key is missing."""
    if not is_administrator(actor):
        raise Forbidden("Only an administrator may change the key of secrets.")
    try:
        return store.rotate_key()
    except KeyProblem as error:
        raise Refused("no-key", str(error)) from error


def _owner(actor: User, project: Project | None) -> Project | User:
    if project is None:
        require_scope(actor, Permission.SECRETS_WRITE)
        return actor
    require(actor, project, Permission.SECRETS_WRITE)
    return project
