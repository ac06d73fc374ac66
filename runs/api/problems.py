"""Every refusal of the API as RFC 9457 ``application/problem+json``: the one place where exceptions become answers."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.core.exceptions import ValidationError as FieldsError
from django.db import DataError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from runs.actions import Refused
from runs.api.paging import BadCursor
from runs.finding.index import Building
from runs.finding.language import FilterError
from runs.ingest.report import Foreign, Gap
from runs.records.logs.read import BadCursor as BadLogCursor
from runs.records.metrics.encrypted import Unreadable
from runs.records.points.read import TooManyPoints
from runs.rights.secrets.delivery import SecretMissing
from runs.rights.secrets.key_stores import KeyProblem
from runs.rights.valkey_users import NoUsers
from runs.serving.database_away import RETRY_S, is_away, sentence_for
from runs.serving.rates import TooManyRequests
from trainyard.contract.calls import NODE_UNKNOWN
from trainyard.spec import SpecError

log = structlog.get_logger(__name__)

TITLES = {
    401: "Not signed in", 403: "Not allowed", 404: "Not found", 405: "Method not allowed", 408: "Too slow",
    409: "The state does not allow it", 410: "Cannot be read any more", 413: "Too large",
    422: "The request is not valid", 428: "Something else comes first", 429: "Too many requests",
    500: "Trainyard failed", 503: "Not available just now",
}  # fmt: skip


SIGN_IN = "Send a token that is valid, as `Authorization: Bearer <token>`, or sign in."
NOT_ALLOWED = "Your role does not allow that."
NOTHING_HERE = "There is nothing here that you can see."


class NodeUnknown(Exception):
    """Whoever sealed the request has no key of a node, or no longer."""


def problem(
    status: int,
    detail: str,
    *,
    code: str = "",
    errors: Sequence[Mapping[str, str | int]] | None = None,
    more: Mapping[str, int | str] | None = None,
    wait_s: int | None = None,
) -> HttpResponse:
    """Return the answer. ``code`` names the kind of problem for programs, ``more`` is further data for them, ``wait_s``
    when to ask again."""
    document: dict[str, Any] = {
        "type": f"urn:trainyard:problem:{code}" if code else "about:blank",
        "title": TITLES.get(status, "The request failed"),
        "status": status,
        "detail": detail,
        **(more or {}),
    }
    if code:
        document["code"] = code
    if errors is not None:
        document["errors"] = errors
    response = HttpResponse(json.dumps(document), status=status, content_type="application/problem+json")
    if status == 401:
        response["WWW-Authenticate"] = "Bearer"
    if wait_s is not None:
        response["Retry-After"] = str(wait_s)
    return response


def register(api: NinjaAPI) -> None:
    """Teach the API to answer each exception."""
    answers: tuple[tuple[type[Exception], Any], ...] = (
        (SpecError, _spec_error),
        (ValidationError, _invalid),
        (FieldsError, _bad_fields),
        (BadCursor, _bad_value),
        (BadLogCursor, _bad_value),
        (Building, lambda _, error: problem(503, error.message, code="building", wait_s=2)),
        (FilterError, _bad_filter),
        (Refused, lambda _, error: problem(409, error.sentence, code=error.code)),
        (KeyProblem, lambda _, error: problem(503, str(error), code="no-key")),
        (Unreadable, lambda _, error: problem(410, str(error), code="unreadable")),
        (TooManyPoints, lambda _, error: problem(422, str(error))),
        (Foreign, lambda _, error: problem(409, str(error))),
        (Gap, lambda _, error: problem(409, str(error), code="gap", more={"expected": error.expected})),
        (SecretMissing, lambda _, error: problem(409, str(error))),
        (NoUsers, lambda _, error: problem(503, str(error))),
        (TooManyRequests, too_many),
        (AuthenticationError, lambda _, error: problem(401, SIGN_IN, code="sign-in")),
        (NodeUnknown, lambda _, error: problem(401, str(error), code=NODE_UNKNOWN)),
        # A body that cannot be read is a bad body.
        (HttpError, lambda _, error: problem(422 if error.status_code == 400 else error.status_code, str(error))),
        (RequestDataTooBig, too_large),
        (DataError, _not_storable),
        (OperationalError, _database_error),
        (InterfaceError, _database_error),
        (PermissionDenied, lambda _, error: problem(403, str(error) or NOT_ALLOWED, code="forbidden")),
        (Http404, lambda _, error: problem(404, str(error) or NOTHING_HERE, code="not-found")),
        (Exception, _failed),
    )
    for kind, answer in answers:
        api.add_exception_handler(kind, answer)


def _spec_error(request: HttpRequest, error: SpecError) -> HttpResponse:
    errors = [{"path": problem.path, "message": problem.message} for problem in error.errors]
    return problem(422, str(error), code="spec", errors=errors)


def _invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    errors = [{"path": _path(one.get("loc", ())), "message": str(one.get("msg", "is wrong"))} for one in error.errors]
    detail = "; ".join(f"{item['path']}: {item['message']}" if item["path"] else item["message"] for item in errors)
    return problem(422, detail, code="invalid", errors=errors)


def _path(location: tuple[int | str, ...]) -> str:
    """Leave out where it came from and the name of the parameter object: ``("body", "body", "name")`` is ``name``."""
    parts = list(location)[1:]
    if len(parts) > 1 and parts[0] in ("body", "document", "query"):
        parts = parts[1:]
    return ".".join(map(str, parts))


def _bad_fields(request: HttpRequest, error: FieldsError) -> HttpResponse:
    by_field = error.message_dict if hasattr(error, "error_dict") else {"": error.messages}
    errors = [{"path": field, "message": message} for field, messages in by_field.items() for message in messages]
    return problem(422, "; ".join(item["message"] for item in errors), code="invalid", errors=errors)


def _bad_value(request: HttpRequest, error: ValueError) -> HttpResponse:
    return problem(422, str(error), code="invalid", errors=[{"path": "cursor", "message": str(error)}])


def _bad_filter(request: HttpRequest, error: FilterError) -> HttpResponse:
    where: dict[str, str | int] = {"path": error.path, "message": error.message, "position": error.position}
    return problem(422, f"{error.path}: {error.message}", code="invalid", errors=[where])


def too_many(request: HttpRequest, error: TooManyRequests) -> HttpResponse:
    return problem(429, error.sentence, code="too-many-requests", wait_s=error.wait_s)


def too_large(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
    return problem(413, "The body is larger than this server reads.")


def _not_storable(request: HttpRequest, error: DataError) -> HttpResponse:
    log.warning("api.not_storable", path=request.path, method=request.method, error=str(error))
    return problem(422, "The request holds what the database does not take, such as a NUL character.", code="invalid")


def _database_error(request: HttpRequest, error: Exception) -> HttpResponse:
    if not is_away(error):
        return _failed(request, error)
    log.warning("api.database_away", path=request.path, method=request.method, error=str(error))
    return database_away(error)


def database_away(error: BaseException | None) -> HttpResponse:
    return problem(503, sentence_for(error), code="database-away", wait_s=RETRY_S)


def _failed(request: HttpRequest, error: Exception) -> HttpResponse:
    log.exception("api.failed", path=request.path, method=request.method)
    return problem(500, "Something went wrong on the server. It is in its log.", code="failed")
