"""Secrets on their way to ranks: which a run names, whose they are, and which versions an attempt got."""

from django.utils import timezone
from django.utils.crypto import salted_hmac

from runs.models import Attempt, Node, Placement, Project, Run, Secret, SecretUse, User
from runs.rights.access.permissions import NotFound
from runs.rights.access.roles import permissions_in
from runs.rights.audit.facts import Act
from runs.rights.audit.recording import OK, record
from runs.rights.secrets.storage_keys import keyring_of_project, living_keys
from runs.rights.secrets.store import open_newest, secrets_of
from runs.values.status import Phase
from trainyard.at_rest.keyring import NO_KEYS, VARIABLE
from trainyard.contract.base import JsonObject, SpecDocument
from trainyard.contract.calls import GivenSecret, GivenSecrets
from trainyard.spec.sections.container import credentials_reference
from trainyard.spec.sections.environment import environment_of, secret_references
from trainyard.spec.values.references import SecretReference, references_in


class NotPlaced(NotFound):
    """The node has no part of such an attempt, or it is over."""


class SecretMissing(Exception):
    """The message is a sentence that names the secret."""


def missing_in(task: JsonObject, *, project: Project, person: User | None) -> dict[int, str]:
    """Return by place in ``task.secrets`` why the secret cannot be had."""
    found = {}
    for index, reference in enumerate(references_in(task)):
        if _find(reference, project, person) is None:
            found[index] = _sentence(reference, project, person)
    return found


def credentials_missing(spec: SpecDocument, *, project: Project, person: User | None) -> str:
    """Return why the credentials of the registry cannot be had; empty where they can, or none are asked for."""
    section = environment_of(spec)
    reference = credentials_reference(section.container) if section is not None else None
    if reference is None or _find(reference, project, person) is not None:
        return ""
    return _sentence(reference, project, person)


def give(node: Node, attempt_id: str) -> tuple[Attempt, GivenSecrets]:
    """Return the secrets of a live attempt for a node that has a part of it, and record that it got them. Raises
    NotPlaced, SecretMissing and KeyProblem."""
    placements = Placement.objects.filter(node=node, attempt=attempt_id, attempt__ended_at=None)
    placement = placements.select_related("node", "attempt__run__project", "attempt__run__created_by").first()
    if placement is None:
        raise NotPlaced(f"There is no attempt {attempt_id!r} that goes on with a part on this node.")
    if _began_elsewhere(placement):
        raise NotPlaced(f"Attempt {attempt_id!r} began on {node.name} before this machine joined under that name.")
    attempt, run = placement.attempt, placement.attempt.run
    given, versions = [], {}
    for reference in secret_references(run.spec):
        secret = _find(reference, run.project, run.created_by)
        if secret is None or not secret.version:
            raise SecretMissing(_sentence(reference, run.project, run.created_by))
        number, value = open_newest(secret)
        given.append(GivenSecret(reference.variable, value, reference.is_file))
        versions[reference] = (secret, number)
    keyring = keyring_of_project(run.project) if takes_storage_keys(run) else NO_KEYS
    if keyring.keys:
        given.append(GivenSecret(VARIABLE, keyring.to_text(), is_file=True))
    for reference, (secret, number) in versions.items():
        SecretUse.objects.get_or_create(
            attempt=attempt,
            name=reference.name,
            version=number,
            is_personal=reference.is_personal,
            node=node.name,
            defaults={"secret": secret},
        )
        Secret.objects.filter(pk=secret.pk).update(used_at=timezone.now())
    if run.spec.get("task", {}).get("notebook"):
        given.append(GivenSecret(TOKEN_VARIABLE, token_of(run), False))
    read = {f"secret {'mine:' if one.is_personal else ''}{one.name}": number for one, (_, number) in versions.items()}
    read |= {"storage key": max(keyring.keys)} if keyring.keys else {}
    _record(node, attempt, run, read)
    return attempt, GivenSecrets(given)


def _began_elsewhere(placement: Placement) -> bool:
    """Return whether a join token has given the node's name to another machine since the attempt began there: its
    secrets are none of the other's."""
    is_later = placement.node.joined_at > placement.attempt.created_at
    return placement.node.kind == Node.Kind.STAYS and placement.phase != Phase.PREPARING and is_later


def takes_storage_keys(run: Run) -> bool:
    """Return whether ranks of the run get the storage keys of its project: recipes do, whose checkpoints are ours to
    encrypt, while a script writes what it wants."""
    return "recipe" in run.spec.get("task", {}) and living_keys(run.project).exists()


def uses_of(run: Run) -> list[SecretUse]:
    """Return which secrets the run's attempts got, the newest attempt first."""
    uses = SecretUse.objects.filter(attempt__run=run).select_related("attempt", "secret")
    return list(uses.order_by("-attempt__number", "name", "node"))


def _find(reference: SecretReference, project: Project, person: User | None) -> Secret | None:
    owner = person if reference.is_personal else project
    if owner is person and person is not None and not permissions_in(person, project):
        return None  # what restarts their run once they left is others' doing
    return None if owner is None else secrets_of(owner).filter(name=reference.name, version__gt=0).first()


def _sentence(reference: SecretReference, project: Project, person: User | None) -> str:
    if reference.is_personal:
        if person is not None and not permissions_in(person, project):
            return f"{person}, whose secret {reference.name} the run names, is not in project {project.name} any more."
        return f"{person or 'Whoever launched this'} has no secret {reference.name}."
    return f"Project {project.name} has no secret {reference.name}."


def _record(node: Node, attempt: Attempt, run: Run, versions: dict[str, int]) -> None:
    act = Act(actor=f"node {node.name}", action="secrets.read", project=run.project.name, address=node.address)
    act.object, act.result = f"run {run.pk}, attempt {attempt.number}", OK
    act.after = {name: {"version": number} for name, number in versions.items()}
    record(act)


# The token that the JupyterLab of a notebook run takes.

TOKEN_VARIABLE = "JUPYTER_TOKEN"


def token_of(run: Run) -> str:
    """Return the token: known to the server, and to the run's own processes. Whoever else is on its node cannot make
    it."""
    return salted_hmac("runs.notebook", run.pk, algorithm="sha256").hexdigest()
