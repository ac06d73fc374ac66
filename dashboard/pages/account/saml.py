"""Sign-in by SAML: the way to the provider, and the way back in two steps.

The provider's page posts its answer here, across sites, so the browser's session does not come along. The answer is
checked then; what it says goes on in a signed cookie of two minutes, to a GET that finds the session with the request.
"""

import time
from dataclasses import replace
from datetime import UTC, datetime

import structlog
from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from redis.exceptions import RedisError

from dashboard.pages.account.sign_in import sign_in_context
from dashboard.pages.shared.frame import show
from runs.people.identity import saml
from runs.people.identity.people import known_groups
from runs.people.identity.providers import Claims, Provider
from runs.rights.audit.recording import describe
from runs.serving.transport import redis
from trainyard.contract.base import BadDocument, WireStruct, convert, to_builtins

log = structlog.get_logger(__name__)

REQUESTS = "saml-requests"  # in the session: those that wait for an answer, by their id
MAX_REQUESTS, REQUEST_S = 10, 15 * 60.0
COOKIE, COOKIE_S, MAX_COOKIE = "trainyard-saml", 120, 3_800
SALT = "dashboard.saml"
USED = "trainyard:saml-used"
AGAIN = "The answer of the provider is not accepted: it was used already. Begin again."


class Wanted(WireStruct):
    """A sign-in that was begun: the provider, and why the person was sent there."""

    provider: str
    process: str
    after: str
    since: float


class Passed(WireStruct):
    """Contents of a verified answer of a provider, on its way through the browser."""

    provider: str
    request: str
    claims: Claims
    ends_at: float


def lead(request: HttpRequest, provider: Provider, *, process: str, after: str) -> HttpResponse:
    request_id, url = saml.ask(provider, back=_back(provider), metadata=_metadata(provider))
    now = time.time()
    waiting = {key: one for key, one in _waiting(request).items() if now - one.since < REQUEST_S}
    waiting[request_id] = Wanted(provider.id, process, after, now)
    newest = sorted(waiting, key=lambda key: waiting[key].since)[-MAX_REQUESTS:]
    request.session[REQUESTS] = {key: to_builtins(waiting[key]) for key in newest}
    return HttpResponse(status=302, headers={"Location": url, "Cache-Control": "no-store"})


def check(request: HttpRequest, provider: Provider) -> HttpResponse:
    """Check what was posted; nothing of it is kept here but that it was used. RelayState is not read."""
    try:
        found = saml.read_answer(
            provider, request.POST.get("SAMLResponse", ""),
            back=_back(provider), metadata=_metadata(provider), now=datetime.now(UTC),
        )  # fmt: skip
    except saml.BadAssertion as error:
        return _refuse(request, provider, str(error))
    try:
        is_new = redis().set(f"{USED}:{found.used_key}", 1, nx=True, ex=int(found.valid_for_s))
    except RedisError:
        return _refuse(request, provider, "The sign-in cannot be checked now. Begin again in a moment.", 503)
    if not is_new:
        return _refuse(request, provider, AGAIN)
    claims = replace(found.claims, groups=frozenset(known_groups(provider, found.claims.groups)))
    passed = Passed(provider.id, found.in_response_to, claims, found.session_ends_at)
    text = signing.dumps(to_builtins(passed), salt=SALT, compress=True)
    if len(text) > MAX_COOKIE:
        return _refuse(request, provider, "The answer of the provider is too long: have it send fewer groups.")
    response = HttpResponse(status=303, headers={"Location": _here(provider), "Cache-Control": "no-store"})
    response.set_cookie(
        COOKIE, text, max_age=COOKIE_S, path=_here(provider), httponly=True, samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )  # fmt: skip
    return response


def take(request: HttpRequest, provider: Provider) -> tuple[Passed, Wanted] | None:
    """Return what came back, once, with what was asked for; None where this browser asked for nothing of the kind."""
    try:
        passed = convert(signing.loads(request.COOKIES.get(COOKIE, ""), salt=SALT, max_age=COOKIE_S), Passed)
    except (signing.BadSignature, BadDocument):
        return None
    waiting = _waiting(request)
    wanted = waiting.pop(passed.request, None)
    request.session[REQUESTS] = {key: to_builtins(one) for key, one in waiting.items()}
    is_ours = wanted is not None and passed.provider == wanted.provider == provider.id
    if wanted is None or not is_ours or time.time() - wanted.since > REQUEST_S:
        return None
    return passed, wanted


def metadata(provider: Provider) -> HttpResponse:
    document = saml.metadata_of(provider, back=_back(provider), metadata=_metadata(provider))
    return HttpResponse(document, content_type="application/samlmetadata+xml")


def _waiting(request: HttpRequest) -> dict[str, Wanted]:
    return {key: convert(one, Wanted) for key, one in request.session.get(REQUESTS, {}).items()}


def _here(provider: Provider) -> str:
    return reverse("saml-assertion", args=[provider.id])


def _back(provider: Provider) -> str:
    return f"{settings.PUBLIC_URL}{_here(provider)}"


def _metadata(provider: Provider) -> str:
    return f"{settings.PUBLIC_URL}{reverse('saml-metadata', args=[provider.id])}"


def _refuse(request: HttpRequest, provider: Provider, problem: str, status: int = 403) -> HttpResponse:
    log.warning("sign_in.bad_assertion", provider=provider.id, reason=problem)
    describe(action="sign-in", object=f"provider {provider.id}", result=f"refused: {problem}"[:200], is_wanted=True)
    return show(request, "sign_in.html", sign_in_context(problem=problem), status=status)
