"""``/scim/v2/``: the one view behind all of it. A bearer token of SCIM's own kind is the only way in."""

import re
import secrets
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import structlog
from django.conf import settings
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt

from runs.models import ProvisioningToken, User
from runs.models.access import digest_of
from runs.people.identity.providers import Provider
from runs.people.scim import rows
from runs.people.scim.documents import (
    GROUP,
    USER,
    Comparison,
    GroupIn,
    ListOut,
    PatchIn,
    ScimError,
    UserIn,
    parse_filter,
)
from runs.rights.access import is_administrator, or_not_found, require_administrator, require_presence
from runs.rights.access.operations import SCIM
from trainyard.contract.base import BadDocument, JsonObject, decode, encode

PREFIX = "ty_scim_"
USED_EVERY = timedelta(minutes=1)


def create_provisioning_token(*, actor: User, provider: Provider) -> tuple[ProvisioningToken, str]:
    """Return a new token for the provider's client, and its secret, which is shown this once."""
    require_administrator(actor)
    require_presence(actor)
    secret = PREFIX + secrets.token_urlsafe(32)
    token = ProvisioningToken.objects.create(provider=provider.id, digest=digest_of(secret), created_by=actor)
    log.info("scim.token_created", provider=provider.id, token=token.pk, actor=actor.pk)
    return token, secret


def revoke_provisioning_token(*, actor: User, token_id: str) -> ProvisioningToken:
    """Revoke a token. For anybody but an administrator there is none."""
    token = ProvisioningToken.objects.filter(pk=token_id).first() if is_administrator(actor) else None
    token = or_not_found(token, "There is no such token.")
    ProvisioningToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now())
    log.info("scim.token_revoked", provider=token.provider, token=token.pk, actor=actor.pk)
    return token


def live_provisioning_tokens() -> QuerySet[ProvisioningToken]:
    """Return the valid tokens: not revoked, and made by somebody who is still an administrator."""
    return ProvisioningToken.objects.filter(revoked_at=None, created_by__is_active=True, created_by__is_superuser=True)


def provider_of(secret: str, address: str) -> str | None:
    """Return whose token this is; None where it opens nothing."""
    token = live_provisioning_tokens().filter(digest=digest_of(secret)).first()
    if token is None:
        return None
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at > USED_EVERY or token.last_address != address[:45]:
        ProvisioningToken.objects.filter(pk=token.pk).update(last_used_at=now, last_address=address[:45])
    return token.provider


log = structlog.get_logger(__name__)

KIND = "application/scim+json"
MAX_PAGE = 200

T = TypeVar("T")
Row = Any  # an Identity or a ProvidedGroup: each resource's functions take their own


class Resource(NamedTuple):
    """Functions for one kind of resource."""

    filters: frozenset[str]
    document: Any
    find: Callable[[Provider, Comparison | None], QuerySet[Any]]
    create: Callable[[Provider, Any], Row]
    replace: Callable[[Provider, Row, Any], Row]
    patched: Callable[[Row, Any], Any]
    delete: Callable[[Provider, Row], None]
    as_document: Callable[[Row, str], object]


RESOURCES = {
    "Users": Resource(
        rows.PERSON_FILTERS, UserIn, rows.people_of, rows.create_person, rows.replace_person, rows.changed_person,
        rows.delete_person, rows.person_document,
    ),
    "Groups": Resource(
        rows.GROUP_FILTERS, GroupIn, rows.groups_of, rows.create_group, rows.replace_group, rows.changed_group,
        rows.delete_group, rows.group_document,
    ),
}  # fmt: skip


@csrf_exempt  # no cookie opens it
def scim(request: HttpRequest, rest: str) -> HttpResponse:
    try:
        return _answer(request, _provider(request), rest.strip("/"))
    except ScimError as error:
        return _respond(error.document(), error.status)


scim.rules = dict.fromkeys(("GET", "POST", "PUT", "PATCH", "DELETE"), SCIM)  # type: ignore[attr-defined]  # of routes


def _provider(request: HttpRequest) -> Provider:
    """Return whose client asks. Raises ScimError."""
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    known = provider_of(secret.strip(), request.META.get("REMOTE_ADDR", "")) if scheme.lower() == "bearer" else None
    provider: Provider | None = settings.SIGN_IN.provider(known) if known is not None else None
    if provider is None:
        raise ScimError(401, "Send a SCIM token that is valid, as `Authorization: Bearer <token>`.")
    return provider


def _answer(request: HttpRequest, provider: Provider, path: str) -> HttpResponse:
    kind, _, key = path.partition("/")
    location = f"{settings.PUBLIC_URL}/scim/v2"
    if (about := about_service(path, location)) is not None and request.method == "GET":
        return _respond(about)
    resource = RESOURCES.get(kind)
    if resource is None or "/" in key:
        raise ScimError(404, "There is nothing at this address.")
    if not key:
        return _collection(request, provider, resource, location)
    row = resource.find(provider, Comparison("id", key)).first()
    if row is None:
        raise ScimError(404, f"There is no {kind[:-1].lower()} {key[:60]!r}.")
    match request.method:
        case "GET":
            return _respond(resource.as_document(row, location))
        case "PUT":
            row = resource.replace(provider, row, _body(request, resource.document))
        case "PATCH":
            row = resource.replace(provider, row, resource.patched(row, _body(request, PatchIn).operations))
        case "DELETE":
            resource.delete(provider, row)
            return HttpResponse(status=204)
        case _:
            raise ScimError(405, f"{request.method} is not for one {kind[:-1]}.")
    return _respond(resource.as_document(row, location))


def _collection(request: HttpRequest, provider: Provider, resource: Resource, location: str) -> HttpResponse:
    if request.method == "POST":
        row = resource.create(provider, _body(request, resource.document))
        return _respond(resource.as_document(row, location), 201)
    if request.method != "GET":
        raise ScimError(405, f"{request.method} is not for a list.")
    found = resource.find(provider, parse_filter(request.GET.get("filter", ""), resource.filters))
    start, count = max(1, _number(request, "startIndex", 1)), min(MAX_PAGE, max(0, _number(request, "count", MAX_PAGE)))
    page: list[Model] = list(found[start - 1 : start - 1 + count])
    documents = [resource.as_document(row, location) for row in page]
    return _respond(ListOut(found.count(), start_index=start, items_per_page=len(page), resources=documents))


def _number(request: HttpRequest, name: str, otherwise: int) -> int:
    text = request.GET.get(name) or str(otherwise)
    if not re.fullmatch("-?[0-9]{1,9}", text):
        raise ScimError(400, f"{name} is a whole number.", "invalidValue")
    return int(text)


def _body(request: HttpRequest, kind: type[T]) -> T:
    try:
        return decode(request.body, kind)
    except BadDocument as error:
        raise ScimError(400, f"{error}.", "invalidSyntax") from error


def _respond(document: object, status: int = 200) -> HttpResponse:
    response = HttpResponse(encode(document), status=status, content_type=KIND)
    response["Cache-Control"] = "no-store"
    if status == 401:
        response["WWW-Authenticate"] = "Bearer"
    return response


# Description of this server's abilities, which SCIM clients ask for first (RFC 7643, 5 to 7).

CONFIG = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"
RESOURCE_TYPE = "urn:ietf:params:scim:schemas:core:2.0:ResourceType"
SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:Schema"
KINDS = (("User", "Users", USER), ("Group", "Groups", GROUP))
ATTRIBUTES = {
    USER: (
        ("userName", "string", True), ("externalId", "string", False), ("name", "complex", False),
        ("emails", "complex", False), ("active", "boolean", False),
    ),
    GROUP: (("displayName", "string", True), ("externalId", "string", False), ("members", "complex", False)),
}  # fmt: skip
MANY = frozenset({"emails", "members"})


def about_service(path: str, location: str) -> object | None:
    """Return the document about the server at that path; None where the path is about something else."""
    if path == "ServiceProviderConfig":
        return {
            "schemas": [CONFIG],
            "patch": {"supported": True},
            "bulk": {"supported": False, "maxOperations": 0, "maxPayloadSize": 0},
            "filter": {"supported": True, "maxResults": 200},
            "changePassword": {"supported": False},
            "sort": {"supported": False},
            "etag": {"supported": False},
            "authenticationSchemes": [
                {"type": "oauthbearertoken", "name": "Bearer token", "description": "Made by an administrator."}
            ],
            "meta": {"resourceType": "ServiceProviderConfig", "location": f"{location}/{path}"},
        }
    if (made := {"ResourceTypes": _resource_type, "Schemas": _schema}.get(path)) is None:
        return None
    found = [made(*kind, location) for kind in KINDS]
    return ListOut(len(found), start_index=1, items_per_page=len(found), resources=found)


def _resource_type(name: str, endpoint: str, schema: str, location: str) -> JsonObject:
    return {
        "schemas": [RESOURCE_TYPE],
        "id": name,
        "name": name,
        "endpoint": f"/{endpoint}",
        "schema": schema,
        "meta": {"resourceType": "ResourceType", "location": f"{location}/ResourceTypes/{name}"},
    }


def _schema(name: str, _: str, schema: str, location: str) -> JsonObject:
    return {
        "schemas": [SCHEMA],
        "id": schema,
        "name": name,
        "attributes": [
            {"name": one, "type": kind, "multiValued": one in MANY, "required": is_required, "mutability": "readWrite"}
            for one, kind, is_required in ATTRIBUTES[schema]
        ],
        "meta": {"resourceType": "Schema", "location": f"{location}/Schemas/{schema}"},
    }
