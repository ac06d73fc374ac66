"""``POST /node/attempts/…/secrets``: an attempt's secrets for a node that has a part of it, locked for that node."""

from django.http import HttpRequest, HttpResponse

from runs.api.auth import Resource
from runs.api.node_auth import answer_with, described
from runs.models import Node
from runs.rights.access.operations import NODE, operation
from runs.rights.secrets.delivery import give
from trainyard.contract.calls import secrets_scope
from trainyard.contract.locks import lock
from trainyard.contract.orders import Locked

router = Resource(tags=["nodes"])


@router.post(
    "/node/attempts/{attempt_id}/secrets",
    response={200: None},
    openapi_extra=described(None, Locked),
    summary="Fetch an attempt's secrets (nodes only)",
)
@operation(NODE)
def fetch(request: HttpRequest, attempt_id: str) -> HttpResponse:
    """Of a live attempt that it has a part of, encrypted with its key. 409: the project does not have one of them any
    more."""
    node: Node = request.auth  # type: ignore[attr-defined]
    attempt, found = give(node, attempt_id)
    response = answer_with(lock(node.key, secrets_scope(node.pk, attempt.pk), found))
    response["Cache-Control"] = "no-store"
    return response
