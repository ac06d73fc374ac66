"""Whose files a node may store: those of the newest attempt that it has a part of, until all of them have come."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.http import HttpRequest
from django.utils import timezone
from ninja.errors import HttpError

from runs.models import Node, Placement, Run
from runs.records.files import outputs
from runs.records.files.room import NoRoom
from runs.records.files.uploads import NoTarget, NotBegun, Sender
from runs.rights.access import NotFound
from runs.rights.secrets.key_stores import KeyProblem
from runs.rights.secrets.storage_keys import keyring_of_project
from trainyard.at_rest.keyring import Keyring


def placement_of(request: HttpRequest, run_id: str, fence: int, *, is_newest: bool = True) -> Placement:
    """Return the part of the attempt that the calling node has. Raises NotFound, and HttpError where it is over: what
    an older attempt leaves, or what comes after the end, changes nothing, unless somebody has asked for it."""
    node: Node = request.auth  # type: ignore[attr-defined]
    found = Placement.objects.filter(node=node, attempt__run=run_id, attempt__fence=fence)
    placement = found.select_related("attempt__run").first()
    if placement is None:
        raise NotFound(f"There is no run {run_id!r} with fence {fence} on this node.")
    newest = placement.attempt.run.fence
    if is_newest and newest != fence and placement.leftovers != "upload":
        raise HttpError(409, f"Fence {fence} is over: the newest attempt of the run has fence {newest}.")
    if not placement.takes_files(timezone.now()):
        raise HttpError(410, "The attempt is over, and its node had sent everything or had time enough to.")
    return placement


@contextmanager
def refusals() -> Iterator[None]:
    """Answer what the storing of files raises."""
    try:
        yield
    except outputs.TooLarge as error:
        raise HttpError(413, str(error)) from error
    except NotBegun as error:
        raise HttpError(428, str(error)) from error
    except NoTarget as error:
        raise HttpError(422, str(error)) from error
    except NoRoom as error:
        raise HttpError(507, str(error)) from error
    except ValueError as error:
        raise HttpError(422, str(error)) from error


def sender_of(placement: Placement) -> Sender:
    number = Placement.objects.filter(attempt=placement.attempt_id).count()
    keyring = keyring_for(placement.attempt.run)
    return Sender(placement.attempt.run_id, placement.node_id, placement.node_rank, number, keyring)


def keyring_for(run: Run) -> Keyring:
    """Return the keys of the files of a run. Raises HttpError where the key service does not answer."""
    try:
        return keyring_of_project(run.project)
    except KeyProblem as error:
        raise HttpError(503, str(error)) from error
