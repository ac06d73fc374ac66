"""``/clusters``, and the tokens that let machines into them."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Field, Query, Schema

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.paging import ListQuery, Page, page_of
from runs.api.schemas import Body, TimeOut, schema_of
from runs.models import Cluster, Node, Project, Run, User
from runs.placing.policies import FAIR_SHARE, POLICIES
from runs.presenting.server_state import contact_time
from runs.presenting.stamps import document_of, stamp
from runs.records.time_use.sums import time_of_all
from runs.rights import access
from runs.rights.access.operations import lists, machine, operation, site
from runs.values.status import Status
from trainyard.contract.answers import machines as answers

router = Resource(tags=["clusters"])

_policies = "; ".join(f"{name}: {policy.label}" for name, policy in POLICIES.items())
SCHEDULING = f"order of the runs that wait, at first {FAIR_SHARE}. {_policies}"
TOPOLOGY = 'labels of nodes, near to far, as `["switch", "rack"]`: nodes with the same value are near to each other'
IDLE = (
    "off, mark (at first) or stop, with a save: runs that use accelerators less than `idle_below` over `idle_minutes`"
)
MINUTES = "at first 30; 0.2 to 1,440; `stop` follows as long again after the mark"


class RuleIn(Body):
    label: str
    pattern: str = Field(description="an expression in RE2's syntax, sought in each line")
    action: str = Field("label", description="label, notify, exclude-node or no-retry")


class ClusterEdit(Body):
    """What may be changed. Of a new cluster what is not named is as the model has it."""

    name: str | None = None
    region: str | None = None
    labels: dict[str, str | None] | None = Field(None, description="others stay; null removes one")
    spares: int | None = Field(None, ge=0, description="so many idle nodes prepare for the loss of another; at first 1")
    interactive: bool | None = Field(None, description="members of its projects may run commands beside ranks")
    isolation_minimum: int | None = Field(None, description="nodes with a lower sandbox level get no runs: 0, 1 or 2")
    scheduling: str | None = Field(None, description=SCHEDULING)
    half_life_days: float | None = Field(None, description="days, at first 7, in which use counts half in fair shares")
    spared_minutes: float | None = Field(None, description="after its start, in which a run makes no room for others")
    slot_hour_price: float | None = Field(
        None, description="of a slot for an hour, in your currency: see `/usage`; below 0: no price"
    )
    idle_action: str | None = Field(None, description=IDLE)
    idle_below: float | None = Field(None, description="percent, at first 5")
    idle_minutes: float | None = Field(None, description=MINUTES)
    topology: list[str] | None = Field(None, description=TOPOLOGY)
    projects: list[str] | None = Field(None, description="names or ids of all that may use it")
    settings: dict[str, Any] | None = Field(
        None, description="of an engine that brings nodes; others stay; null is the default again, or removes a secret"
    )
    log_rules: list[RuleIn | str] | None = Field(None, description="for the logs of runs that start from now on")


class ClusterIn(ClusterEdit):
    name: str
    engine: str = Field("celery", description="celery, whose nodes stay, or one that brings nodes for each attempt")


ClusterOut = schema_of(answers.Cluster)


class ClusterWithTime(ClusterOut):  # type: ignore[valid-type, misc]  # the fields are those of the contract
    time: TimeOut = Field(description="summed over the runs on it that you see and that live or ended within 30 days")


class JoinTokenOut(Schema):
    id: str
    token: str = Field(description="shown this once")
    expires_at: str


@router.get("/clusters", response=page_of(answers.Cluster))
@operation(lists(access.Permission.CLUSTERS_READ))
def find(request: HttpRequest, query: Query[ListQuery]) -> "Page[answers.Cluster]":
    user = actor(request)
    return query.page(access.visible_clusters(user), partial(_clusters, user), sort="name")


@router.post("/clusters", response={201: ClusterOut})
@operation(site(access.Permission.CLUSTERS_MANAGE))
def create(request: HttpRequest, body: ClusterIn) -> answers.Cluster:
    """`engine` and `settings` make one whose machines come with each run. Example: `{"name": "lab", "region": "eu",
    "labels": {"rack": "7"}, "projects": ["default"]}`"""
    user = actor(request)
    return _clusters(user, [actions.create_cluster(actor=user, **body.dict())])[0]


@router.get("/clusters/{cluster_id}", response=ClusterWithTime)
@operation(machine(access.Permission.CLUSTERS_READ))
def show(request: HttpRequest, cluster_id: str) -> ClusterWithTime:
    """With `time`, summed over its runs that live or ended within 30 days, at most a minute old."""
    user = actor(request)
    cluster = access.get_cluster(request, cluster_id)
    runs = access.visible_runs(user) if access.has_scope(user, access.Permission.RUNS_READ) else Run.objects.none()
    time = time_of_all(runs.filter(cluster=cluster), timezone.now()).as_document()
    return ClusterWithTime(**_clusters(user, [cluster])[0], time=TimeOut(**time))


@router.patch("/clusters/{cluster_id}", response=ClusterOut)
@operation(machine(access.Permission.CLUSTERS_MANAGE))
def edit(request: HttpRequest, cluster_id: str, body: ClusterEdit) -> answers.Cluster:
    """What is not named stays; lists are replaced as a whole. `log_rules` are `{label, pattern, action}` or lines
    `LABEL ACTION: PATTERN`; 422 names the rule, the pattern and the place in it. Example: `{"region": "us", "projects":
    ["default"]}`"""
    user = actor(request)
    cluster = access.get_cluster(request, cluster_id)
    return _clusters(user, [actions.edit_cluster(actor=user, cluster=cluster, **body.dict())])[0]


@router.delete("/clusters/{cluster_id}", response={204: None})
@operation(machine(access.Permission.CLUSTERS_MANAGE))
def delete(request: HttpRequest, cluster_id: str) -> None:
    """Only without nodes and past runs."""
    actions.delete_cluster(actor=actor(request), cluster=access.get_cluster(request, cluster_id))


@router.post("/clusters/{cluster_id}/join-tokens", response={201: JoinTokenOut}, summary="Let one machine in")
@operation(machine(access.Permission.CLUSTERS_MANAGE))
def new_join_token(request: HttpRequest, cluster_id: str, response: HttpResponse) -> JoinTokenOut:
    """A secret for `trainyard node --join`, valid for a day and no longer than the token that asks for it. With TLS it
    ends with the fingerprint of the server's authority."""
    token, secret = actions.new_join_token(actor=actor(request), cluster=access.get_cluster(request, cluster_id))
    response["Cache-Control"] = "no-store"
    return JoinTokenOut(id=token.pk, token=secret, expires_at=stamp(token.expires_at))


def _clusters(user: User, rows: Sequence[Cluster]) -> list[answers.Cluster]:
    seen = Project.objects.all() if access.can_manage_clusters(user) else access.visible_projects(user)
    return [_cluster(row, seen.filter(clusters=row), access.can_manage_cluster(user, row)) for row in rows]


def _cluster(row: Cluster, projects: QuerySet[Project], shows_settings: bool) -> answers.Cluster:
    now = contact_time(timezone.now())
    nodes = list(Node.objects.present().filter(cluster=row).prefetch_related("held_slots"))
    usable = [node for node in nodes if node.is_in_contact(now) and not node.is_draining]
    found: answers.Cluster = document_of(
        row,
        answers.Cluster.__annotations__,
        settings=row.settings if shows_settings else {},
        secrets=sorted(row.secrets) if shows_settings else [],
        projects=list(projects.values_list("name", flat=True)),
        num_nodes=len(nodes),
        num_nodes_in_contact=sum(node.is_in_contact(now) for node in nodes),
        num_slots=sum(node.slots for node in nodes),
        num_free_slots=sum(max(0, node.slots - len({slot.index for slot in node.held_slots.all()})) for node in usable),
        num_queued=row.runs.filter(status=Status.QUEUED).count(),
    )
    return found
