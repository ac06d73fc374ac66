"""Exports of what belongs to a person, erasure, and consent."""

from collections.abc import Sequence
from datetime import timedelta

from django.utils import timezone

from runs.actions.people.ways_in import disable
from runs.models import Consent, ErasedPerson, Membership, PersonalExport, Project, Role, Run, Sweep, User
from runs.models.privacy.people import pseudonym_of
from runs.privacy import consent, erasure
from runs.rights import access
from runs.rights.audit.recording import describe
from runs.values.refused import Refused
from runs.values.status import FINAL
from trainyard.contract.statuses import SWEEP_FINAL
from trainyard.formats.words import listed

EXPORT_AGAIN = timedelta(hours=1)
MOST_NAMED = 3  # runs or projects in a sentence


def request_export(*, actor: User, user: User | None = None) -> PersonalExport:
    """Have control make an export for the person: for oneself, and as an administrator for anybody. Only the person
    it is about gets the file. Raises Refused where one was asked for within an hour and waits or is ready."""
    person = user or actor
    if person != actor and not access.is_administrator(actor):
        raise access.Forbidden("Only an administrator may ask for an export about somebody else.")
    if person == actor:
        access.require_account(actor, access.Permission.ACCOUNT_MANAGE)
    _refuse_service(person)
    newest = PersonalExport.objects.filter(user=person).exclude(state=PersonalExport.State.FAILED).first()
    if newest is not None and timezone.now() - newest.created_at < EXPORT_AGAIN:
        raise Refused("export-exists", "An export was asked for less than an hour ago. It is made once an hour.")
    return PersonalExport.objects.create(user=person)


def get_export(*, actor: User, export_id: str, is_ready: bool = False) -> PersonalExport:
    """Return an export about the actor; ``is_ready``: whose file is there. Raises NotFound for anybody else's, an
    administrator's too: it is the person's alone."""
    access.require_account(actor, access.Permission.ACCOUNT_READ)
    found = PersonalExport.objects.filter(user=actor, pk=export_id)
    if is_ready:
        found = found.filter(state=PersonalExport.State.READY, expires_at__gt=timezone.now())
    return access.or_not_found(found.first(), f"You have no export {export_id!r}.")


def erase_person(*, actor: User, user: User, confirm: str, with_runs: bool = False) -> ErasedPerson:
    """Erase a person for good: oneself, and as an administrator anybody; with a proof that the actor is there.

    ``confirm`` is their user name, typed again. ``with_runs``: the runs that they launched are deleted, too. Raises
    Forbidden, and Refused with what has to be done first.
    """
    of_themselves = {"actor": pseudonym_of(user.pk), "actor_number": user.pk} if user == actor else {}
    row = _begin_erasure(actor=actor, user=user, confirm=confirm, with_runs=with_runs)
    describe(action="person.erase", object=f"user {row.number}", **of_themselves)
    erasure.carry_out(user, row)
    return row


@access.with_rights_held
def _begin_erasure(*, actor: User, user: User, confirm: str, with_runs: bool) -> ErasedPerson:
    """Check everything, put the person on the list of erasures, and disable the account. From then on nobody else who
    is to be erased counts on them, as the other administrator or as the other owner."""
    user = access.or_not_found(User.objects.filter(pk=user.pk).first(), "There is no such person any more.")
    if user != actor and not access.is_administrator(actor):
        raise access.Forbidden("Only an administrator may erase somebody else.")
    if user == actor:
        access.require_account(actor, access.Permission.ACCOUNT_MANAGE)
    access.require_presence(actor)
    _refuse_service(user)
    if confirm != user.username:
        raise Refused("not-confirmed", "Type the user name as it stands there: an erasure cannot be undone.")
    if sentence := why_not_erased(user):
        raise Refused("not-erasable", sentence)
    runs = list(Run.objects.filter(created_by=user).values_list("pk", flat=True)) if with_runs else []
    disable(user)
    return erasure.put_on_list(user, timezone.now(), runs)


def why_not_erased(user: User) -> str:
    """Say what has to be done before the person can be erased; empty where nothing has."""
    if access.is_last_administrator(user):
        return "This is the last administrator. Make another one first."
    live = list(Run.objects.filter(created_by=user).exclude(status__in=list(FINAL)).values_list("name", flat=True))
    live += Sweep.objects.filter(created_by=user).exclude(status__in=list(SWEEP_FINAL)).values_list("name", flat=True)
    if live:
        names = listed(live, at_most=MOST_NAMED)
        return f"{names} still {'goes' if len(live) == 1 else 'go'} on. Stop what runs first."
    if alone := _owned_alone(user):
        names = listed(alone, at_most=MOST_NAMED)
        return f"Nobody else is owner of {names}, where others are members. Make somebody else owner first."
    return ""


def agree(*, actor: User) -> None:
    """Record that the actor agrees to the text of now."""
    text = consent.text_of_now()
    if actor.token is not None:
        raise access.Forbidden("A text is agreed to in a session of one's own.")
    if text is None:
        raise access.NotFound("There is nothing to agree to.")
    Consent.objects.get_or_create(user=actor, digest=text.digest)


def _owned_alone(user: User) -> Sequence[str]:
    """The names of projects with other members that would have no owner without the person."""
    found = []
    for project in Project.objects.filter(memberships__user=user, memberships__role=Role.OWNER).distinct():
        others = Membership.objects.filter(project=project).exclude(user=user).exclude(user__service_of=project)
        if others.exists() and not others.filter(role=Role.OWNER, user__is_active=True).exists():
            found.append(project.name)
    return found


def _refuse_service(user: User) -> None:
    if user.is_service:
        raise Refused("service-account", f"{user} is a service account and no person: close it instead.")
