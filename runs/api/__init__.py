"""The REST API, ``/api/v1``: one file per resource."""

from django.http import HttpRequest
from ninja.constants import NOT_SET
from ninja.openapi.docs import Swagger

from runs.api import apps, events, health, problems
from runs.api.auth import Resource, SessionAuth, TokenAuth
from runs.api.idempotency import once
from runs.api.machines import authorities, clusters, node_secrets, nodes, preflights, queue
from runs.api.metrics import arrow_export, csv_export, logs, media, points, series
from runs.api.openapi import Api
from runs.api.people import (
    audit,
    git_keys,
    groups,
    notices,
    personal_data,
    project_data,
    projects,
    roles,
    secrets,
    service_accounts,
    share,
    tokens,
    workspaces,
)
from runs.api.sweeping import exchange, figures, populations
from runs.api.training import (
    bundles,
    checkpoints,
    code,
    datasets,
    files,
    history,
    jobs,
    local,
    plans,
    ranks,
    reports,
    runs,
    sweeps,
    traces,
    uploads,
)
from runs.rights.access import NotFound
from runs.rights.access.operations import SIGNED_IN, operation

__all__ = ["api"]

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]

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
for module in (
    runs, plans, traces, apps, ranks, history, checkpoints, code, series, csv_export, arrow_export, local, logs, media,
    points, files, uploads, jobs, exchange, figures, sweeps, populations, datasets, clusters, queue, nodes,
    authorities,
    preflights, projects, project_data, personal_data, git_keys, secrets, audit, node_secrets, workspaces, tokens,
    groups, notices, roles, service_accounts, share, bundles, health, reports, events,
):  # fmt: skip
    api.add_router("", module.router, auth=NOT_SET)

elsewhere = Resource()


@elsewhere.api_operation(METHODS, "/{path:rest}", include_in_schema=False)
@operation(SIGNED_IN)
def nothing(request: HttpRequest, rest: str) -> None:
    """What no route names is a problem document too, not a page."""
    raise NotFound(f"There is no {request.method} /{rest}.")


api.add_router("", elsewhere, auth=NOT_SET)  # last: the first route that fits is taken
