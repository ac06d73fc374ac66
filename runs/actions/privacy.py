"""Requests of people about their own data: exports, erasure and consent. And rules of owners for a project's data: how
long they are kept, in which regions they lie, how much they may be, and whether its files are encrypted."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils import timezone

from runs.actions.jobs import refusing_without_key
from runs.actions.people.ways_in import disable, require_over_person
from runs.models import (
    Cluster,
    Consent,
    ErasedPerson,
    Membership,
    PersonalExport,
    Project,
    Role,
    Run,
    StorageKey,
    Sweep,
    User,
)
from runs.models.privacy import pseudonym_of
from runs.privacy import consent, erasure, retention, storage
from runs.privacy.retention import Removal
from runs.privacy.storage import REMOVABLE, DataKind, days_kept
from runs.rights import access
from runs.rights.access import Permission, require, require_administrator
from runs.rights.audit.recording import describe
from runs.rights.secrets.storage_keys import destroy_storage_keys as destroy
from runs.rights.secrets.storage_keys import living_keys, make_storage_key
from runs.values.refused import Refused
from runs.values.status import FINAL
from trainyard.contract.statuses import SWEEP_FINAL
from trainyard.formats.words import listed

EXPORT_AGAIN = timedelta(hours=1)
MOST_NAMED = 3  # runs or projects in a sentence
MOST_DAYS = 36_500
MOST_BYTES = 10**18


def request_export(*, actor: User, user: User | None = None) -> PersonalExport:
    """Have control make an export for the person: for oneself, and as an administrator for anybody. Only the person
    it is about gets the file. Raises Refused where one was asked for within an hour and waits or is ready."""
    person = user or actor
    require_over_person(actor, person, Permission.ACCOUNT_MANAGE, "ask for an export about somebody else")
    _refuse_service(person)
    newest = PersonalExport.objects.filter(user=person).exclude(state=PersonalExport.State.FAILED).first()
    if newest is not None and timezone.now() - newest.created_at < EXPORT_AGAIN:
        raise Refused("export-exists", "An export was asked for less than an hour ago. It is made once an hour.")
    return PersonalExport.objects.create(user=person)


def get_export(*, actor: User, export_id: str) -> PersonalExport:
    """Return an export about the actor whose file is there. Raises NotFound for anybody else's, an administrator's too:
    it is the person's alone."""
    access.require_account(actor, access.Permission.ACCOUNT_READ)
    ready = PersonalExport.objects.filter(state=PersonalExport.State.READY, expires_at__gt=timezone.now())
    found = ready.filter(user=actor, pk=export_id)
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
    require_over_person(actor, user, Permission.ACCOUNT_MANAGE, "erase somebody else")
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
        return _goes_on(live)
    if alone := _owned_alone(user):
        names = listed(alone, at_most=MOST_NAMED)
        return f"Nobody else is owner of {names}, where others are members. Make somebody else owner first."
    return ""


def _goes_on(names: Sequence[str]) -> str:
    return f"{listed(names, at_most=MOST_NAMED)} still {'goes' if len(names) == 1 else 'go'} on. Stop what runs first."


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


# Rules for a project's data.


def set_retention(*, actor: User, project: Project, days: Mapping[str, int | None]) -> Project:
    """Keep each kind that is named for so many days after a run's end; None: for ever. What is older goes within the
    hour. Raises ValidationError by kind."""
    require(actor, project, Permission.PRIVACY_MANAGE)
    fields = {f"keep_{kind}_days": number for kind, number in _checked(days).items()}
    for name, number in fields.items():
        setattr(project, name, number)
    project.save(update_fields=fields)
    return project


def preview_retention(*, actor: User, project: Project, days: Mapping[str, int | None]) -> list[Removal]:
    """Return what would go at once. Kinds that are not named stay as they are."""
    require(actor, project, Permission.PRIVACY_MANAGE)
    now_kept = {kind: days_kept(project, kind) for kind in REMOVABLE}
    return retention.preview(project, {**now_kept, **_checked(days)}, timezone.now())


def set_regions(*, actor: User, project: Project, regions: Sequence[str]) -> Project:
    """Pin the project: nothing of it is launched, trained or named as data elsewhere from now on; none: anywhere.

    Metrics, logs and output files lie on the server, so its region must be among them. Raises ValidationError.
    """
    require(actor, project, Permission.PRIVACY_MANAGE)
    wanted = sorted({one.strip() for one in regions if one.strip()})
    known = known_regions()
    if unknown := [one for one in wanted if one not in known]:
        there = f"There are: {', '.join(known)}." if known else "No cluster has one yet."
        raise ValidationError({"regions": f"Nothing is in the region {unknown[0]!r}. {there}"})
    if wanted and settings.SERVER_REGION not in wanted:
        where = f"is in {settings.SERVER_REGION}" if settings.SERVER_REGION else "does not say where it is"
        words = f"Metrics, logs and files lie on this server, which {where} (SERVER_REGION)."
        raise ValidationError({"regions": words})
    project.regions = ",".join(wanted)
    project.clean_fields(exclude=["name"])
    project.save(update_fields=["regions"])
    return project


def known_regions() -> list[str]:
    """Return where the clusters and this server are."""
    return sorted({*Cluster.objects.values_list("region", flat=True), settings.SERVER_REGION} - {""})


def set_quota(*, actor: User, project: Project, quota_bytes: int | None) -> Project:
    """Let the project store so much; None: as much as there is room for. For administrators."""
    require_administrator(actor)
    if quota_bytes is not None and not 0 < quota_bytes <= MOST_BYTES:
        raise ValidationError({"quota_bytes": f"A quota is 1 to {MOST_BYTES:,} bytes, not {quota_bytes}."})
    project.quota_bytes = quota_bytes
    project.save(update_fields=["quota_bytes"])
    return project


def measure_storage(*, actor: User, project: Project) -> None:
    """Measure now what the project stores, and where."""
    require(actor, project, Permission.PRIVACY_MANAGE)
    storage.measure(project, timezone.now())


def _checked(days: Mapping[str, int | None]) -> dict[DataKind, int | None]:
    known = [str(kind) for kind in REMOVABLE]
    problems = {}
    for kind, number in days.items():
        if kind not in known:
            problems[kind] = f"There is no kind {kind!r}. There are: {', '.join(known)}."
        elif number is not None and not 1 <= number <= MOST_DAYS:
            problems[kind] = f"A number of days is 1 to {MOST_DAYS:,}, or nothing for ever, not {number}."
    if problems:
        raise ValidationError(problems)
    return {DataKind(kind): number for kind, number in days.items()}


def set_encryption(*, actor: User, project: Project, encrypts: bool) -> Project:
    """Encrypt what attempts that begin from now on keep, or no longer. What is there stays as it is, and is read in
    either case. Raises Refused where no key can be had."""
    require(actor, project, Permission.PRIVACY_MANAGE)
    if encrypts and not living_keys(project).exists():
        _new_key(project)
    describe(before={"encrypts_files": project.encrypts_files}, after={"encrypts_files": encrypts})
    project.encrypts_files = encrypts
    project.save(update_fields=["encrypts_files"])
    return project


def rotate_storage_key(*, actor: User, project: Project) -> StorageKey:
    """Make a new key, which attempts that begin from now on encrypt with; older ones go on opening what they encrypted.
    Raises Refused where the project has none, or none can be had."""
    require(actor, project, Permission.PRIVACY_MANAGE)
    if not living_keys(project).exists():
        raise Refused("no-storage-key", f"Project {project.name} has no storage key: switch encryption on first.")
    key = _new_key(project)
    describe(after={"storage key": key.number})
    return key


def destroy_storage_keys(*, actor: User, project: Project, confirm: str) -> int:
    """Destroy all storage keys of the project: what they encrypted cannot be read by anybody any more, wherever a copy
    of it is. Returns how many there were. ``confirm`` is the project's name, typed again. Where the project encrypts,
    it has a new key afterwards. Raises Refused."""
    require(actor, project, Permission.PRIVACY_MANAGE)
    if confirm != project.name:
        raise Refused("not-confirmed", "Type the project's name as it stands there: destroyed keys do not come back.")
    live = Run.objects.filter(project=project).exclude(status__in=list(FINAL)).values_list("name", flat=True)
    if names := list(live):
        raise Refused("runs-go-on", _goes_on(names))
    number = destroy(project)
    describe(object=f"project {project.name}", after={"destroyed keys": number})
    if project.encrypts_files:
        _new_key(project)
    return number


def _new_key(project: Project) -> StorageKey:
    with refusing_without_key("no-storage-key"):
        return make_storage_key(project)
