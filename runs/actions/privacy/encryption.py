"""Encryption of a project's files where they lie: on and off, a new key, and the destruction of keys."""

from runs.models import Project, Run, StorageKey, User
from runs.rights.access import Permission, require
from runs.rights.audit.recording import describe
from runs.rights.secrets.key_stores import KeyProblem
from runs.rights.secrets.storage_keys import destroy_storage_keys as destroy
from runs.rights.secrets.storage_keys import living_keys, make_storage_key
from runs.values.refused import Refused
from runs.values.status import FINAL
from trainyard.formats.words import listed

MOST_NAMED = 3


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
        words = listed(names, at_most=MOST_NAMED)
        raise Refused("runs-go-on", f"{words} still {'goes' if len(names) == 1 else 'go'} on. Stop what runs first.")
    number = destroy(project)
    describe(object=f"project {project.name}", after={"destroyed keys": number})
    if project.encrypts_files:
        _new_key(project)
    return number


def _new_key(project: Project) -> StorageKey:
    try:
        return make_storage_key(project)
    except KeyProblem as error:
        raise Refused("no-storage-key", str(error)) from error
