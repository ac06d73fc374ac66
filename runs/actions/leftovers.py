"""Decisions about files that nodes have not sent: those in working folders, and those that were refused."""

from typing import Literal

from django.db import transaction
from django.db.models import Q

from runs.models import Placement, Run, User
from runs.rights.access import Permission, require
from runs.values.refused import Refused

Word = Literal["upload", "discard"]
SENTENCES = {
    "upload": "{actor} asked for the files that were left on {nodes}: they are sent now.",
    "discard": "{actor} gave up the files that were left on {nodes}: they are deleted there within a day.",
}


def decide_leftovers(*, actor: User, run: Run, word: Word) -> Run:
    """Let nodes send what they still have of the run, or delete it with its attempt. Refused where there is nothing."""
    require(actor, run.project, Permission.RUNS_DELETE)
    left = [one for one in undecided(run) if not one.leftovers or one.leftovers != word]
    if not left:
        raise Refused("nothing-left", f"No node has files of run {run.name} that wait for a decision.")
    nodes = " and ".join(sorted({one.node.name for one in left}))
    with transaction.atomic():
        Placement.objects.filter(pk__in=[one.pk for one in left]).update(leftovers=word)
        run.record(f"leftovers-{word}", SENTENCES[word].format(actor=actor, nodes=nodes), actor=actor)
    return run


def undecided(run: Run) -> list[Placement]:
    """Return the parts of ended attempts whose nodes keep files that are not sent unasked."""
    found = Placement.objects.filter(attempt__run=run, done_at=None).exclude(attempt__ended_at=None)
    kept = found.filter(~Q(gained={}) | Q(output__num_refused__gt=0))
    return list(kept.select_related("node", "attempt").order_by("attempt__number", "node_rank"))
