"""``/health``: whether this process and the services that it needs answer, without a login. ``/metrics``: numbers for
Prometheus."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Field, Schema
from ninja import Status as Answer

from runs.api.auth import Resource, actor
from runs.presenting import exposition, server_state
from runs.rights.access import Permission
from runs.rights.access.operations import PUBLIC, lists, operation

router = Resource(tags=["health"])


class Health(Schema):
    live: bool
    ready: bool = Field(description="the database and Valkey answer, control ticks, ingest runs, the disk has room")
    database: bool
    valkey: bool
    control: bool
    control_tick_age_s: float | None
    ingest: bool = Field(description="every shard has an ingest that works on it")
    disk: bool = Field(description="there is room where the server keeps its state")
    separate_nodes: bool = Field(description="each node has a user of its own in Valkey; else they share the server's")
    dropped_messages: int = Field(description="in control's queue, which the server had not sealed")
    sentences: list[str] = Field(description="what is wrong, in words; empty when nothing is")


@router.get("/health", response={200: Health, 503: Health})
@operation(PUBLIC)
def health(request: HttpRequest, response: HttpResponse) -> Any:
    """Without sign-in. 200 when database and Valkey answer, control ticks, ingest runs and the disk has room; else 503,
    and `sentences` says what is wrong. `dropped_messages` counts unsealed messages in control's queue. `separate_nodes`
    is false where the user in `REDIS_URL` may not make users: then no node is let in, or all share one
    (`NODES_SHARE_VALKEY_USER`)."""
    state = server_state.look()
    response["Cache-Control"] = "no-store"
    known = {name: getattr(state, name) for name in Health.model_fields if name not in ("live", "ready")}
    return Answer(200 if state.is_ready else 503, {"live": True, "ready": state.is_ready, **known})


@router.get("/metrics", response=None, summary="Numbers for Prometheus")
@operation(lists(Permission.CLUSTERS_READ))
def metrics(request: HttpRequest) -> HttpResponse:
    """OpenMetrics: the server, and nodes, slots, queue and runs of what you see. A scraper has a token with
    `clusters:read` and `runs:read`."""
    text = exposition.exposition_for(actor(request), timezone.now()).text()
    return HttpResponse(text, content_type=exposition.CONTENT_TYPE)
