"""The REST API, ``/api/v1``: one file per resource."""

from django.http import HttpRequest
from ninja.constants import NOT_SET
from ninja.openapi.docs import Swagger

from runs.api import problems
from runs.api.auth import Resource, SessionAuth, TokenAuth
from runs.api.idempotency import once
from runs.api.openapi import Api
from runs.rights.access import NotFound
from runs.rights.access.operations import SIGNED_IN, operation

__all__ = ["api"]

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
# In the order of the document; of two routes that fit the first is taken.
RESOURCES = (
    "training.runs", "training.plans", "training.traces", "apps", "training.ranks", "training.history",
    "training.checkpoints", "training.code", "metrics.series", "metrics.csv_export", "metrics.arrow_export",
    "training.local", "metrics.logs", "metrics.media", "metrics.points", "training.files", "training.uploads",
    "training.jobs", "sweeping.exchange", "sweeping.figures", "training.sweeps", "sweeping.populations",
    "training.datasets", "machines.clusters", "machines.queue", "machines.nodes", "machines.authorities",
    "machines.preflights", "people.projects", "people.project_data", "people.personal_data", "people.git_keys",
    "people.secrets", "people.audit", "machines.node_secrets", "people.workspaces", "people.tokens", "people.groups",
    "people.notices", "people.roles", "people.service_accounts", "people.share", "training.bundles", "health",
    "training.reports", "events",
)  # fmt: skip

api = Api(
    title="Trainyard",
    version="1",
    description="Launch, watch and repair distributed PyTorch training.",
    urls_namespace="api",
    auth=[TokenAuth(), SessionAuth()],
    openapi_extra={"info": {"license": {"name": "Apache-2.0"}}},
    docs=Swagger(settings={"deepLinking": False}),  # its links would be inside of buttons
)
problems.register(api)
api.add_decorator(once, mode="view")
for module in RESOURCES:
    api.add_router("", f"runs.api.{module}.router", auth=NOT_SET)

elsewhere = Resource()


@elsewhere.api_operation(METHODS, "/{path:rest}", include_in_schema=False)
@operation(SIGNED_IN)
def nothing(request: HttpRequest, rest: str) -> None:
    """What no route names is a problem document too, not a page."""
    raise NotFound(f"There is no {request.method} /{rest}.")


api.add_router("", elsewhere, auth=NOT_SET)  # last: the first route that fits is taken
