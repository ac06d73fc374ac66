"""``/clusters/{id}/preflights`` and ``/runs/{id}/preflights``: checks of nodes, asked for or made at a placement."""

from collections.abc import Sequence
from typing import cast

from django.http import HttpRequest
from django.utils import timezone
from msgspec.structs import asdict
from ninja import Query

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.paging import ListQuery, Page, page_of
from runs.api.schemas import schema_of
from runs.life.preflight.needs import checked_nodes
from runs.life.preflight.vetting import checks_together
from runs.models import Node, Preflight
from runs.presenting.server_state import contact_time
from runs.presenting.stamps import document_of
from runs.rights.access import Permission, get_cluster, get_run
from runs.rights.access.operations import machine, operation, thing
from runs.values.columns import Check
from trainyard.contract.answers import machines as answers

router = Resource(tags=["clusters"])


@router.get(
    "/clusters/{cluster_id}/checks", response=schema_of(answers.Checks), summary="Checks that its nodes report now"
)
@operation(machine(Permission.CLUSTERS_READ))
def current(request: HttpRequest, cluster_id: str) -> answers.Checks:
    """`state` is `ok`, `warn` or `fail`."""
    cluster = get_cluster(request, cluster_id)
    now = contact_time(timezone.now())
    found = checks_together(checked_nodes(Node.objects.present().filter(cluster=cluster), now))
    return answers.Checks(checks=[_check(one) for one in found])


@router.post(
    "/clusters/{cluster_id}/preflight", response={202: schema_of(answers.Preflight)}, summary="Check its nodes now"
)
@operation(machine(Permission.CLUSTERS_USE))
def check(request: HttpRequest, cluster_id: str) -> answers.Preflight:
    """For members of a project that may use it. The checks are there a few seconds later: see `GET
    /clusters/{cluster_id}/preflights`. 409 for a cluster without nodes."""
    return _preflights([actions.check_cluster(actor=actor(request), cluster=get_cluster(request, cluster_id))])[0]


@router.get(
    "/clusters/{cluster_id}/preflights", response=page_of(answers.Preflight), summary="Checks that were asked for"
)
@operation(machine(Permission.CLUSTERS_READ))
def of_cluster(request: HttpRequest, cluster_id: str, query: Query[ListQuery]) -> "Page[answers.Preflight]":
    """The newest first; `state` is the worst of its `checks`."""
    rows = get_cluster(request, cluster_id).preflights.filter(why=Preflight.Why.ASKED)
    return query.page(rows.select_related("cluster", "attempt", "asked_by"), _preflights, sort="-created_at")


@router.post(
    "/runs/{run_id}/preflight",
    response={202: schema_of(answers.Preflight)},
    summary="Check its nodes now",
    tags=["runs"],
)
@operation(thing(Permission.CLUSTERS_USE))
def check_run(request: HttpRequest, run_id: str) -> answers.Preflight:
    """The nodes of its newest attempt; of a run that was never placed, those of its cluster."""
    return _preflights([actions.check_run(actor=actor(request), run=get_run(request, run_id))])[0]


@router.get(
    "/runs/{run_id}/preflights", response=page_of(answers.Preflight), summary="Checks of its nodes", tags=["runs"]
)
@operation(thing(Permission.RUNS_READ))
def of_run(request: HttpRequest, run_id: str, query: Query[ListQuery]) -> "Page[answers.Preflight]":
    """What was known of the nodes of each attempt when it was placed."""
    run = get_run(request, run_id)
    rows = Preflight.objects.filter(attempt__run=run).select_related("cluster", "attempt", "asked_by")
    return query.page(rows, _preflights, sort="-created_at")


def _preflights(rows: Sequence[Preflight]) -> list[answers.Preflight]:
    names = dict(Node.objects.filter(pk__in={node for row in rows for node in row.nodes}).values_list("pk", "name"))
    return [
        document_of(
            row,
            answers.Preflight.__annotations__,
            attempt=row.attempt.number if row.attempt else None,
            nodes=sorted(names.get(node, node) for node in row.nodes),
            checks=[_check(one) for one in row.checks],
        )
        for row in rows
    ]


def _check(one: Check) -> answers.Check:
    return cast(answers.Check, asdict(one))
