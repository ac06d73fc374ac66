"""``/mlflow/api/2.0``: the REST API of MLflow's tracking server, as far as it has counterparts here.

An experiment is a group of runs in a project, a run one that is logged from outside, a parameter part of its
configuration, an artifact one of its files. What has no counterpart is answered as MLflow's server answers what it does
not know.
"""

import json
import re
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja.constants import NOT_SET
from ninja.errors import ValidationError

from runs.api import problems
from runs.api.auth import Resource, SessionAuth, TokenAuth
from runs.api.mlflow import experiments, models, tracking
from runs.api.openapi import Api
from runs.rights.access.operations import SIGNED_IN, operation

NOT_THERE = re.compile(r"^There is no (run|experiment) ('.*') that you can see")
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
CODES = {
    401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "RESOURCE_DOES_NOT_EXIST", 409: "INVALID_STATE",
    413: "INVALID_PARAMETER_VALUE", 422: "INVALID_PARAMETER_VALUE", 429: "REQUEST_LIMIT_EXCEEDED",
    503: "TEMPORARILY_UNAVAILABLE",
}  # fmt: skip


class MlflowApi(Api):
    """Ours, with errors as MLflow's client reads them."""

    def on_exception(self, request: HttpRequest, exc: Any) -> HttpResponse:
        response = super().on_exception(request, exc)
        found = json.loads(response.content)
        if isinstance(exc, ValidationError) and found.get("errors"):
            found["detail"] = " ".join(_parameter(request, one["path"], one["message"]) for one in found["errors"])
        if gone := NOT_THERE.match(found["detail"]):
            found["detail"] = f"{gone[1].capitalize()} {gone[2]} not found: there is none that you can see."
        code = "RESOURCE_ALREADY_EXISTS" if found.get("code") == "name-taken" else CODES.get(response.status_code)
        status = 400 if response.status_code in (409, 422) else response.status_code
        answer = refusal(code or "INTERNAL_ERROR", found["detail"], status)
        if "Retry-After" in response:
            answer["Retry-After"] = response["Retry-After"]
        return answer


def _parameter(request: HttpRequest, path: str, message: str) -> str:
    """Say what is wrong with a parameter in the words that MLflow's server begins with."""
    name, *inner = path.split(".")
    try:
        value = request.GET.get(name) if request.method == "GET" else json.loads(request.body).get(name)
    except (ValueError, AttributeError):
        value = None
    if value is None or message == "Field required":
        place = "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in inner)
        return f"Missing value for required parameter '{name}{place}'."
    return f"Invalid value {json.dumps(value):.200} for parameter '{name}' supplied: {path}: {message}."


def refusal(code: str, message: str, status: int) -> HttpResponse:
    body = json.dumps({"error_code": code, "message": message})
    return HttpResponse(body, status=status, content_type="application/json")


mlflow = MlflowApi(
    title="MLflow", urls_namespace="mlflow", auth=[TokenAuth(), SessionAuth()], docs_url=None, openapi_url=None
)
problems.register(mlflow)
for module in (experiments, tracking, models):
    mlflow.add_router("", module.router, auth=NOT_SET)

elsewhere = Resource()


@elsewhere.api_operation(METHODS, "/{path:rest}")
@operation(SIGNED_IN)
def nothing(request: HttpRequest, rest: str) -> HttpResponse:
    """Registered models, traces, evaluation: not there."""
    return refusal("ENDPOINT_NOT_FOUND", f"Trainyard has no {request.method} /{rest}.", 404)


mlflow.add_router("", elsewhere, auth=NOT_SET)  # last: the first route that fits is taken
