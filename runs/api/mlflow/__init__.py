"""``/mlflow/api/2.0``: the REST API of MLflow's tracking server, as far as it has counterparts here.

An experiment is a project, a run one that is logged from outside, a parameter part of its configuration, an artifact
one of its files. What has no counterpart is answered as MLflow's server answers what it does not know.
"""

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja.constants import NOT_SET

from runs.api import problems
from runs.api.auth import Resource, SessionAuth, TokenAuth
from runs.api.mlflow import artifacts, models, tracking
from runs.api.openapi import Api
from runs.rights.access.operations import SIGNED_IN, operation

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
CODES = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "RESOURCE_DOES_NOT_EXIST",
    409: "INVALID_STATE",
    413: "INVALID_PARAMETER_VALUE",
    422: "INVALID_PARAMETER_VALUE",
    429: "REQUEST_LIMIT_EXCEEDED",
    503: "TEMPORARILY_UNAVAILABLE",
}


class MlflowApi(Api):
    """Ours, with errors as MLflow's client reads them."""

    def on_exception(self, request: HttpRequest, exc: Any) -> HttpResponse:
        response = super().on_exception(request, exc)
        found = json.loads(response.content)
        code = "RESOURCE_ALREADY_EXISTS" if found.get("code") == "name-taken" else CODES.get(response.status_code)
        status = 400 if response.status_code in (409, 422) else response.status_code
        answer = refusal(code or "INTERNAL_ERROR", found["detail"], status)
        if "Retry-After" in response:
            answer["Retry-After"] = response["Retry-After"]
        return answer


def refusal(code: str, message: str, status: int) -> HttpResponse:
    body = json.dumps({"error_code": code, "message": message})
    return HttpResponse(body, status=status, content_type="application/json")


mlflow = MlflowApi(
    title="MLflow", urls_namespace="mlflow", auth=[TokenAuth(), SessionAuth()], docs_url=None, openapi_url=None
)
problems.register(mlflow)
for module in (tracking, models, artifacts):
    mlflow.add_router("", module.router, auth=NOT_SET)

elsewhere = Resource()


@elsewhere.api_operation(METHODS, "/{path:rest}")
@operation(SIGNED_IN)
def nothing(request: HttpRequest, rest: str) -> HttpResponse:
    """Registered models, traces, evaluation: not there."""
    return refusal("ENDPOINT_NOT_FOUND", f"Trainyard has no {request.method} /{rest}.", 404)


mlflow.add_router("", elsewhere, auth=NOT_SET)  # last: the first route that fits is taken
