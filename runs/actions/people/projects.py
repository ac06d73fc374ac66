"""Projects, their members, invitations, keys of their repositories, and secrets of projects and people."""

import secrets
from datetime import timedelta

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from runs.actions.jobs import refusing_without_key, taking_name
from runs.actions.people.sign_in import password_problems
from runs.actions.people.ways_in import end_of, void_handed_out
from runs.inputs.repositories.keys import checked_key
from runs.models import CustomRole, GitKey, Invitation, Membership, Project, Role, Secret, User
from runs.models.access import digest_of
from runs.rights import access
from runs.rights.audit.recording import describe
from runs.rights.secrets import store
from runs.rights.secrets.sealed import git_key_place, seal_text
from runs.values.refused import Refused

INVITATION_LIFE = timedelta(days=7)
MOST_SECRETS = 500  # of one project or person


def create_project(*, actor: User, name: str) -> Project:
    """Make a project whose owner is the actor. Raises ValidationError for a bad name, Refused for a taken one."""
    access.require_project_maker(actor)
    project = Project(name=name)
    project.clean_fields()
    with taking_name(f"There is already a project named {name}."):
        project.save()
        Membership.objects.create(project=project, user=actor, role=Role.OWNER)
    return project


@access.with_rights_held
def invite(*, actor: User, project: Project, role: Role, email: str = "") -> tuple[Invitation, str]:
    """Return an invitation and its secret, which is shown this once and works for one person within a week, and
    no longer than the token that makes it."""
    access.require_grant(actor, project, role)
    secret = secrets.token_urlsafe(32)
    invitation = Invitation(
        project=project,
        email=email,
        role=role,
        digest=digest_of(secret),
        created_by=actor,
        by_token=actor.token,
        expires_at=end_of(INVITATION_LIFE, actor),
    )
    invitation.clean_fields(exclude=["digest", "created_by", "by_token"])
    invitation.clean()
    invitation.save()
    return invitation, secret


@access.with_rights_held
def withdraw_invitation(*, actor: User, project: Project, invitation_id: str) -> None:
    """Make an open link useless. One that was accepted is history and stays."""
    access.require(actor, project, access.Permission.MEMBERS_MANAGE)
    invitation = Invitation.objects.filter(project=project, pk=invitation_id, accepted_at=None).first()
    invitation = access.or_not_found(invitation, "There is no such open invitation.")
    access.require_grant(actor, project, invitation.role)
    invitation.delete()


def accept_invitation(
    *, secret: str, user: User | None = None, username: str = "", password: str | None = None
) -> User:
    """Use the invitation: for ``user``, or for a new person of that name. A higher role that one has is kept.

    A new person without ``password`` signs in by links. Raises NotFound when the secret is unknown, used or too old;
    ValidationError (by field) for a name or a password that is not accepted, Refused for a taken name.
    """
    now = timezone.now()
    with transaction.atomic():
        invitation = access.get_invitation(secret)
        if not Invitation.objects.filter(pk=invitation.pk, accepted_at=None).update(accepted_at=now):
            raise access.NotFound("This invitation was used at this moment.")
        person = user or _new_person(username, invitation.email, password)
        defaults = {"role": invitation.role}
        membership, _ = Membership.objects.get_or_create(project=invitation.project, user=person, defaults=defaults)
        if not access.includes(Role(membership.role), Role(invitation.role)):
            membership.role = invitation.role
            membership.save(update_fields=["role"])
        Invitation.objects.filter(pk=invitation.pk).update(accepted_by=person)
    return person


@access.with_rights_held
def change_role(
    *, actor: User, project: Project, user: User, role: Role, custom_role: CustomRole | None = None
) -> Membership:
    """Give a member another role, and one of the project's own beside it. Nobody gives or takes more than they have:
    owners are made and unmade by owners, and one always remains."""
    access.require(actor, project, access.Permission.MEMBERS_MANAGE)
    membership = _membership(project, user)
    access.require_grant(actor, project, membership.role, membership.custom_role)  # who could give it may take it
    access.require_grant(actor, project, role, custom_role)
    with transaction.atomic():
        if role != Role.OWNER:
            _keep_an_owner(project, membership)
        membership.role, membership.custom_role = role, custom_role
        membership.save(update_fields=["role", "custom_role"])
        void_handed_out()
    return membership


@access.with_rights_held
def remove_member(*, actor: User, project: Project, user: User) -> None:
    """Take a member out. Everybody may leave; others are removed by who could give them their role."""
    if actor == user:
        access.require(actor, project, access.Permission.PROJECTS_READ)
        access.require_account(actor, access.Permission.ACCOUNT_MANAGE)
    else:
        access.require(actor, project, access.Permission.MEMBERS_MANAGE)
    membership = _membership(project, user)
    if actor != user:
        access.require_grant(actor, project, membership.role, membership.custom_role)
    with transaction.atomic():
        _keep_an_owner(project, membership)
        membership.delete()
        void_handed_out()


def _membership(project: Project, user: User) -> Membership:
    """Return the membership, locked to the end of the transaction: the administration deletes rows by itself."""
    found = Membership.objects.select_for_update(of=("self",)).select_related("project", "user", "custom_role")
    membership = found.filter(project=project, user=user).first()
    return access.or_not_found(membership, f"{user} is not a member of {project.name}.")


def _keep_an_owner(project: Project, membership: Membership) -> None:
    owners = Membership.objects.select_for_update().filter(project=project, role=Role.OWNER)
    if membership.role == Role.OWNER and len(owners) == 1:
        raise Refused("last-owner", f"{membership.user} is the last owner of {project.name}.")


def _new_person(username: str, email: str, password: str | None) -> User:
    person = User(username=username, email=email)
    problems = password_problems(password, person) if password is not None else {}
    person.set_password(password)  # None is a password that nobody can type
    try:
        person.full_clean(exclude=["password"])
    except ValidationError as error:
        if User.objects.filter(username__iexact=username).exists():
            raise Refused("name-taken", f"There is already a person named {username}.") from error
        problems |= error.message_dict
    if problems:
        raise ValidationError(problems)
    person.save()
    return person


def add_git_key(
    *, actor: User, project: Project, kind: GitKey.Kind, place: str, secret: str, user: str = "", host_keys: str = ""
) -> GitKey:
    """Keep a token or a private key for the project's repositories under ``place`` (a host, or a host and a path); one
    that is there is replaced. Raises ValidationError, by field, and Refused where there is no key to lock it with."""
    access.require(actor, project, access.Permission.GIT_KEYS_MANAGE)
    values = checked_key(kind=kind, place=place, secret=secret, user=user, host_keys=host_keys)
    key = GitKey(
        project=project, kind=kind, place=values.place, user=values.user, host_keys=values.host_keys, created_by=actor
    )
    with refusing_without_key():
        key.locked = seal_text(git_key_place(project.pk, key.pk), values.secret)
    with transaction.atomic():
        GitKey.objects.filter(project=project, kind=kind, place=values.place).delete()
        key.save()
    return key


def delete_git_key(*, actor: User, project: Project, key_id: str) -> None:
    """Forget a key; runs that were made with it stay as they are."""
    access.require(actor, project, access.Permission.GIT_KEYS_MANAGE)
    if not GitKey.objects.filter(project=project, pk=key_id).delete()[0]:
        raise access.NotFound("There is no such Git key.")


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
    if store.secrets_of(owner).count() >= MOST_SECRETS:
        raise Refused("too-many", f"There are {MOST_SECRETS} secrets already; delete some that nobody uses.")
    with refusing_without_key():
        secret = store.keep(owner=owner, name=name, value=value, by=actor)
    describe(object=f"secret {name}", after={f"secret {name}": {"version": secret.version}}, before={})
    return secret


def delete_secret(*, actor: User, name: str, project: Project | None = None) -> None:
    """Forget a secret with all its versions. Runs that name it cannot start any more."""
    secret = store.secrets_of(_owner(actor, project)).filter(name=name).first()
    secret = access.or_not_found(secret, f"There is no secret {name!r}.")
    secret.delete()
    describe(object=f"secret {name}", before={f"secret {name}": {"version": secret.version}}, after={})


def rotate_secrets_key(*, actor: User) -> store.Rotation:
    """Wrap all secrets with a new key. For administrators. Raises Forbidden, and Refused where the key is missing."""
    if not access.is_administrator(actor):
        raise access.Forbidden("Only an administrator may change the key of secrets.")
    with refusing_without_key():
        return store.rotate_key()


def _owner(actor: User, project: Project | None) -> Project | User:
    if project is None:
        access.require_scope(actor, access.Permission.SECRETS_WRITE)
        return actor
    access.require(actor, project, access.Permission.SECRETS_WRITE)
    return project
