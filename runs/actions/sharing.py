"""Links by which guests read one thing of a project: what can be shared, and links made, revoked and opened."""

import secrets
from datetime import datetime, timedelta
from typing import NamedTuple
from urllib.parse import urlencode

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import F
from django.db.models.functions import Coalesce
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone

from runs.actions.people.ways_in import end_of
from runs.models import Project, Report, Run, SharedLink, Sweep, User
from runs.models.access import digest_of
from runs.presenting.listing import asked_of, compared_runs, text_of
from runs.rights import access
from runs.rights.access import Permission
from runs.rights.audit.recording import describe

USUAL, LONGEST = timedelta(days=30), timedelta(days=366)
MOST_RUNS, MOST_FIELDS = 50, 2_000  # of a comparison, and of its address


class Closed(Exception):
    """A link that opens nothing any more, with the sentence that says why."""


class Shared(NamedTuple):
    """A thing that can be shared. ``name`` is its only one: of a comparison the runs, whatever filter found them."""

    kind: str
    name: str
    title: str
    project: Project
    runs: list[Run]
    sweep: Sweep | None = None
    report: Report | None = None
    num_left_out: int = 0  # runs of a comparison


def thing_of(user: User, name: str, wanted: Permission) -> Shared:
    """Return what the name means, if the person may do that with it. Raises ValidationError for what is no name,
    NotFound, and Forbidden."""
    for prefix, find in KINDS.items():
        if name.startswith(prefix) and name.count("&") < MOST_FIELDS:
            return find(user, name.removeprefix(prefix), wanted)
    words = (
        f"{name[:80]!r} names nothing that can be shared; accepted: run/ID, sweep/ID, report/ID, compare?run=ID&run=ID."
    )
    raise ValidationError({"object": words})


def _run(user: User, key: str, wanted: Permission) -> Shared:
    run = access.get_run(user, key, wanted)
    return Shared("run", f"run/{run.pk}", run.name, run.project, [run])


def _sweep(user: User, key: str, wanted: Permission) -> Shared:
    sweep = access.get_sweep(user, key, wanted)
    return Shared("sweep", f"sweep/{sweep.pk}", sweep.name, sweep.project, [], sweep)


def _report(user: User, key: str, wanted: Permission) -> Shared:
    report = access.get_report(user, key, wanted)
    return Shared("report", f"report/{report.pk}", report.title, report.project, [], report=report)


def _comparison(user: User, text: str, wanted: Permission) -> Shared:
    """Those runs that the address finds now, of the first one's project: a link shows none that fits its filter later,
    and none of a project whose people did not share it."""
    query = QueryDict(text)
    found, warning = compared_runs(user, asked_of(query))
    if not found:
        raise access.NotFound(warning or "There is no run in this comparison.")
    project = found[0].project
    access.require(user, project, wanted)
    runs = [run for run in found if run.project == project][:MOST_RUNS]
    kept = [(key, value) for key in ("metric", "statistic") if (value := text_of(query, key))]
    name = f"compare?{urlencode([*(('run', run.pk) for run in runs), *kept], safe='/')}"
    title = f"Comparison of {len(runs)} run{'' if len(runs) == 1 else 's'}"
    return Shared("compare", name, title, project, runs, num_left_out=len(found) - len(runs))


KINDS = {"run/": _run, "sweep/": _sweep, "report/": _report, "compare?": _comparison}


@access.with_rights_held
def share(*, actor: User, name: str, expires_at: datetime | None = None) -> tuple[SharedLink, str]:
    """Return a new link and its address, which is shown this once. It ends no later than the token that makes it.
    Raises what ``thing_of`` does, and ValidationError for an end that is not in the coming year."""
    thing, now = thing_of(actor, name, Permission.RUNS_SHARE), timezone.now()
    ends_at = expires_at or now + USUAL
    if not now < ends_at <= now + LONGEST:
        words = f"{ends_at.isoformat()} is not in the coming year: a link ends in the future, and within a year."
        raise ValidationError({"expires_at": words})
    secret, ends_at = secrets.token_urlsafe(32), end_of(ends_at - now, actor)
    link = SharedLink(project=thing.project, object=thing.name, digest=digest_of(secret), expires_at=ends_at)
    link.created_by, link.by_token = actor, actor.token
    link.save()
    describe(action="share.create", object=f"link {link.pk} to {link.object[:200]}", project=link.project.name)
    return link, settings.PUBLIC_URL + reverse("shared", args=(secret,))


def revoke_share(*, actor: User, link: SharedLink) -> None:
    """Whoever may share in the project may revoke, also what others made: to stop it is urgent."""
    access.require(actor, link.project, Permission.RUNS_SHARE)
    SharedLink.objects.filter(pk=link.pk, revoked_at=None).update(revoked_at=timezone.now())
    describe(action="share.revoke", object=f"link {link.pk} to {link.object[:200]}", project=link.project.name)


def open_link(secret: str, *, is_counted: bool) -> tuple[User, Shared]:
    """Return the maker of the link with this secret and what it shows: what they may share now, in the project in which
    it was made. Raises NotFound for a secret that there is not, Closed for a link that opens nothing any more."""
    found = SharedLink.objects.select_related("created_by", "by_token").filter(digest=digest_of(secret)).first()
    link = access.or_not_found(found, "There is no such link. Perhaps a part of its address is missing.")
    now, maker = timezone.now(), link.created_by
    if link.expires_at <= now:
        raise Closed(f"It ended on {link.expires_at:%d %b %Y at %H:%M} UTC.")
    if link.revoked_at is not None or (link.by_token is not None and link.by_token.revoked_at is not None):
        raise Closed("It was revoked.")
    try:
        if maker is None:
            raise access.NotFound
        maker.token = link.by_token
        thing = thing_of(maker, link.object, Permission.RUNS_SHARE)
        if thing.project != link.project:
            raise access.NotFound
    except (access.NotFound, access.Forbidden) as error:
        words = "What it showed was deleted or moved to another project, or whoever made it may no longer share it."
        raise Closed(words) from error
    opened = {"num_opened": F("num_opened") + 1, "first_opened_at": Coalesce("first_opened_at", now)}
    SharedLink.objects.filter(pk=link.pk).update(last_opened_at=now, **(opened if is_counted else {}))
    return maker, thing
