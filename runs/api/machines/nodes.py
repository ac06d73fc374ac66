"""``/nodes``: what machines there are, how they join, drain and leave."""

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Field, Query
from ninja.errors import HttpError
from redis.exceptions import RedisError

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.node_auth import answer_with, described, read_body
from runs.api.paging import ListQuery, Page, page_of
from runs.api.schemas import Body, schema_of
from runs.models import Node
from runs.presenting.server_state import contact_time
from runs.presenting.stamps import document_of
from runs.rights import valkey_users
from runs.rights.access import Permission, get_cluster, get_node, visible_nodes
from runs.rights.access.operations import PUBLIC, lists, machine, operation
from runs.serving import certificates
from trainyard.contract.answers import machines as answers
from trainyard.contract.calls import JoinAnswer, JoinRequest, unpinned

router = Resource(tags=["nodes"])


class NodeEdit(Body):
    slots: int = Field(ge=1, le=1024, description="ranks that it takes at once")


NodeOut = schema_of(answers.Node)


@router.post(
    "/nodes/join",
    response={201: None},
    openapi_extra=described(JoinRequest, JoinAnswer, 201),
    summary="Join a cluster with a join token",
)
@operation(PUBLIC)
def join(request: HttpRequest) -> HttpResponse:
    """Needs no user's token: the join token in the body lets one machine in. `attempt` is the one that a token of an
    engine is bound to. The answer has the node's key. Example: `{"token": "join_…", "name": "gpu-1", "address":
    "10.0.0.1", "slots": 8, "inventory": {}, "version": "0.1.0"}`"""
    body = read_body(request, JoinRequest, is_secret=True)
    node = actions.join_node(
        secret=unpinned(body.token).secret, name=body.name, address=body.address, slots=body.slots,
        machine=body.inventory, version=body.version, attempt=body.attempt,
    )  # fmt: skip
    try:
        redis_url, redis_tls_url = valkey_users.url_for(node), valkey_users.tls_url_for(node)
    except (RedisError, OSError) as error:
        raise HttpError(503, "Valkey is away. Join with another token once it is back.") from error
    document = JoinAnswer(
        id=node.pk, name=node.name, key=node.key, redis_url=redis_url, cluster=node.cluster.name,
        redis_tls_url=redis_tls_url, authorities=certificates.bundle(),
    )  # fmt: skip
    response = answer_with(document, 201)
    response["Cache-Control"] = "no-store"
    return response


@router.get("/nodes", response=page_of(answers.Node))
@operation(lists(Permission.CLUSTERS_READ))
def find(request: HttpRequest, query: Query[ListQuery], cluster: str | None = None) -> "Page[answers.Node]":
    """Example: `?cluster=lab`"""
    found = visible_nodes(actor(request)).prefetch_related("held_slots__placement__attempt")
    if cluster:
        found = found.filter(cluster=get_cluster(actor(request), cluster))
    return query.page(found, _nodes, sort="name")


@router.get("/nodes/{node_id}", response=NodeOut)
@operation(machine(Permission.CLUSTERS_READ))
def show(request: HttpRequest, node_id: str) -> answers.Node:
    return _nodes([get_node(request, node_id)])[0]


@router.patch("/nodes/{node_id}", response=NodeOut, summary="Change its slots")
@operation(machine(Permission.CLUSTERS_MANAGE))
def edit(request: HttpRequest, node_id: str, body: NodeEdit) -> answers.Node:
    """1 to 1,024, with GPUs at most one each. 409 where a run holds a slot beyond that. Example: `{"slots": 4}`"""
    return _nodes([actions.set_slots(actor=actor(request), node=get_node(request, node_id), slots=body.slots)])[0]


@router.post("/nodes/{node_id}/drain", response=NodeOut, summary="Place nothing more on it")
@operation(machine(Permission.CLUSTERS_MANAGE))
def drain(request: HttpRequest, node_id: str) -> answers.Node:
    """Elastic runs leave it at once; other running ranks continue."""
    return _nodes([actions.drain_node(actor=actor(request), node=get_node(request, node_id))])[0]


@router.post("/nodes/{node_id}/enable", response=NodeOut, summary="Place on it again")
@operation(machine(Permission.CLUSTERS_MANAGE))
def enable(request: HttpRequest, node_id: str) -> answers.Node:
    return _nodes([actions.enable_node(actor=actor(request), node=get_node(request, node_id))])[0]


@router.delete("/nodes/{node_id}", response={204: None}, summary="Take it off its cluster")
@operation(machine(Permission.CLUSTERS_MANAGE))
def remove(request: HttpRequest, node_id: str) -> None:
    """Its key becomes invalid, and its node worker ends with exit code 77."""
    actions.remove_node(actor=actor(request), node=get_node(request, node_id))


def _nodes(rows: Sequence[Node]) -> list[answers.Node]:
    now = contact_time(timezone.now())
    return [
        document_of(
            row,
            answers.Node.__annotations__,
            held=[answers.Holder(slot=slot.index, run=slot.placement.attempt.run_id) for slot in row.held_slots.all()],
            is_in_contact=row.is_in_contact(now),
            inventory={name: one for name, one in row.inventory.items() if name != "kept"},  # of other projects, too
        )
        for row in rows
    ]
