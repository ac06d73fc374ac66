"""Sign-in through an identity provider: the way there and the way back."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import structlog
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.views import callback
from django.conf import settings
from django.contrib import messages
from django.core import signing
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.crypto import constant_time_compare, salted_hmac
from django.views.decorators.csrf import csrf_exempt
from redis.exceptions import RedisError
from requests import RequestException

from dashboard.pages.account.sign_in import enter, sign_in_context, wait_with
from dashboard.pages.shared.frame import page, person, refusal, safe_next, show
from runs.models import User
from runs.people.identity import saml
from runs.people.identity.checking import Arrival, BadLogout, end_at_providers_word
from runs.people.identity.people import NotAdmitted, connect, known_groups, person_of
from runs.people.identity.provider_calls import ProviderTokens, lock_tokens
from runs.people.identity.providers import Claims, Provider, claims_of
from runs.rights.access import NotFound, require_presence
from runs.rights.access.operations import PUBLIC
from runs.rights.audit.recording import describe
from runs.rights.secrets.key_stores import KeyProblem
from runs.serving.transport import redis
from trainyard.contract.base import BadDocument, WireStruct, convert, to_builtins

log = structlog.get_logger(__name__)

LOGIN, CONNECT = "login", "connect"


def known_provider(provider_id: str, protocol: str = "") -> Provider:
    """Raises NotFound, also for a provider that does not speak the protocol."""
    found: Provider | None = settings.SIGN_IN.provider(provider_id)
    if found is None or (protocol and found.protocol != protocol):
        raise NotFound("There is no such way to sign in.")
    return found


def connect_key(request: HttpRequest) -> str:
    """Return what a link to connect an account has in it, so that no other site can make one."""
    return salted_hmac("connect-provider", str(request.session.session_key)).hexdigest()[:32]


@page(get=PUBLIC)
def start(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Lead to the provider. A GET: the policy of our pages lets forms lead to this site alone."""
    provider = known_provider(provider_id)
    after = safe_next(request, request.GET.get("next", ""), reverse("home"))
    if request.method == "HEAD":
        return redirect("sign-in")
    process = LOGIN
    if request.user.is_authenticated:
        if "connect" not in request.GET:
            return redirect(after)
        require_presence(person(request))
        if not constant_time_compare(request.GET["connect"], connect_key(request)):
            return redirect("security")  # another site led the browser here
        process = CONNECT
    if provider.protocol == "saml":
        return _lead_by_saml(request, provider, process=process, after=after)
    try:
        found = get_adapter(request).get_provider(request, provider.id)
        response: HttpResponse = found.redirect(request, process=process, next_url=after)
    except (RequestException, OAuth2Error, KeyError, ValueError, OSError) as error:
        log.warning("sign_in.provider_away", provider=provider.id, error=type(error).__name__)
        return _refuse(request, f"{provider.name} does not answer now. Try again soon, or sign in another way.", 503)
    response["Cache-Control"] = "no-store"
    return response


@page(get=PUBLIC)
def back(request: HttpRequest, provider_id: str) -> HttpResponse:
    """The browser comes back. allauth checks state and code and calls ``arrive`` with what the provider said."""
    provider = known_provider(provider_id, "openid-connect")
    if request.method == "HEAD":
        return redirect("sign-in")
    try:
        response: HttpResponse = callback(request, provider_id=provider.id)
    except (SocialApp.DoesNotExist, KeyError, ValueError, OSError) as error:
        log.warning("sign_in.provider_failed", provider=provider.id, error=type(error).__name__)
        return failed(request, provider.name)
    response["Cache-Control"] = "no-store"
    response["Referrer-Policy"] = "no-referrer"
    return response


@csrf_exempt  # the token in it is signed by the provider
@page(post=PUBLIC)
def provider_logout(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Back-channel logout: the provider itself says that a session ended there."""
    provider = known_provider(provider_id)
    try:
        end_at_providers_word(provider, request.POST.get("logout_token", ""))
    except BadLogout as error:
        log.warning("sign_in.bad_logout", provider=provider.id, reason=str(error))
        return JsonResponse({"error": "invalid_request", "error_description": str(error)}, status=400)
    return HttpResponse(status=200, headers={"Cache-Control": "no-store"})


def arrive(request: HttpRequest, login: Any) -> HttpResponse:
    """Sign in whom the provider sent, or say why not."""
    provider = known_provider(login.account.provider)
    data = login.account.extra_data
    documents = [data[name] for name in ("userinfo", "id_token") if isinstance(data.get(name), dict)]
    try:
        claims = claims_of(provider, *documents)
    except ValueError as error:
        return not_taken(request, provider, str(error))
    token, expires_at = login.token, login.token.expires_at
    tokens = ProviderTokens(token.token, token.token_secret or "", expires_at.timestamp() if expires_at else 0.0)
    try:
        locked = lock_tokens(provider.id, claims.subject, tokens)
    except KeyProblem as error:
        return _refuse(request, f"What {provider.name} gave cannot be stored now. {error}", 503)
    return let_in(
        request,
        provider,
        claims,
        Arrival(provider.id, claims.subject, claims.sid, locked),
        process=str(login.state.get("process")),
        wanted=login.state.get("next") or "",
    )


def let_in(
    request: HttpRequest, provider: Provider, claims: Claims, arrival: Arrival, *, process: str, wanted: str
) -> HttpResponse:
    """Sign in, or connect, the person of the provider's claims. ``wanted``: the page to go to."""
    try:
        if process == CONNECT:
            if not isinstance(request.user, User):
                return failed(request, provider.name)
            connect(provider, claims, request.user)
            messages.success(request, f"Connected your account of {provider.name}: it signs you in from now on.")
            return redirect("security")
        user = person_of(provider, claims)
    except NotAdmitted as error:
        return not_taken(request, provider, str(error))
    wait_with(request, arrival)
    after = safe_next(request, wanted, reverse("home"))
    return enter(request, user, after, provider.id, is_enough=provider.second_factor)


def not_taken(request: HttpRequest, provider: Provider, why: str, status: int = 403) -> HttpResponse:
    """Refuse what a provider sent, with a sentence, and record that."""
    log.warning("sign_in.not_taken", provider=provider.id, reason=why)
    describe(action="sign-in", object=f"provider {provider.id}", result=f"refused: {why}"[:200], is_wanted=True)
    return _refuse(request, why, status)


def failed(request: HttpRequest, name: str, *, is_cancelled: bool = False) -> HttpResponse:
    """The provider, or the way back, broke the sign-in off."""
    if is_cancelled:
        return _refuse(request, f"You broke off the sign-in at {name}.", 401)
    return _refuse(request, f"The sign-in at {name} did not come to an end. Begin again.", 401)


def _refuse(request: HttpRequest, problem: str, status: int) -> HttpResponse:
    if request.user.is_authenticated:
        return refusal(request, status, problem)
    return show(request, "sign_in.html", sign_in_context(problem=problem), status=status)


# SAML. The provider's page posts its answer here, across sites, so the browser's session does not come along. The
# answer is checked then; what it says goes on in a signed cookie of two minutes, to a GET that finds the session with
# the request.

REQUESTS = "saml-requests"  # in the session: those that wait for an answer, by their id
MAX_REQUESTS, REQUEST_S = 10, 15 * 60.0
COOKIE, COOKIE_S, MAX_COOKIE = "trainyard-saml", 120, 3_800
SALT = "dashboard.saml"
USED = "trainyard:saml-used"
AGAIN = "The answer of the provider is not accepted: it was used already. Begin again."


@csrf_exempt  # the provider's page posts what the provider signed
@page(get=PUBLIC, post=PUBLIC)
def assertion(request: HttpRequest, provider_id: str) -> HttpResponse:
    """The answer of a SAML provider: checked as it is posted, which comes without our cookies, then taken by a GET."""
    provider = known_provider(provider_id, "saml")
    if request.method == "POST":
        return _check_assertion(request, provider)
    arrived = _take_assertion(request, provider) if request.method == "GET" else None
    if arrived is None:
        return failed(request, provider.name)
    passed, wanted = arrived
    arrival = Arrival(provider.id, passed.claims.subject, "", ends_at=passed.ends_at)
    return let_in(request, provider, passed.claims, arrival, process=wanted.process, wanted=wanted.after)


@page(get=PUBLIC)
def metadata(request: HttpRequest, provider_id: str) -> HttpResponse:
    provider = known_provider(provider_id, "saml")
    document = saml.metadata_of(provider, **_addresses(provider))
    return HttpResponse(document, content_type="application/samlmetadata+xml")


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


def _lead_by_saml(request: HttpRequest, provider: Provider, *, process: str, after: str) -> HttpResponse:
    request_id, url = saml.ask(provider, **_addresses(provider))
    now = time.time()
    waiting = {key: one for key, one in _waiting(request).items() if now - one.since < REQUEST_S}
    waiting[request_id] = Wanted(provider.id, process, after, now)
    newest = sorted(waiting, key=lambda key: waiting[key].since)[-MAX_REQUESTS:]
    request.session[REQUESTS] = {key: to_builtins(waiting[key]) for key in newest}
    return HttpResponse(status=302, headers={"Location": url, "Cache-Control": "no-store"})


def _check_assertion(request: HttpRequest, provider: Provider) -> HttpResponse:
    """Check what was posted; nothing of it is kept here but that it was used. RelayState is not read."""
    answer = request.POST.get("SAMLResponse", "")
    try:
        found = saml.read_answer(provider, answer, now=datetime.now(UTC), **_addresses(provider))
    except saml.BadAssertion as error:
        return not_taken(request, provider, str(error))
    try:
        is_new = redis().set(f"{USED}:{found.used_key}", 1, nx=True, ex=int(found.valid_for_s))
    except RedisError:
        return not_taken(request, provider, "The sign-in cannot be checked now. Begin again in a moment.", 503)
    if not is_new:
        return not_taken(request, provider, AGAIN)
    claims = replace(found.claims, groups=frozenset(known_groups(provider, found.claims.groups)))
    passed = Passed(provider.id, found.in_response_to, claims, found.session_ends_at)
    text = signing.dumps(to_builtins(passed), salt=SALT, compress=True)
    if len(text) > MAX_COOKIE:
        return not_taken(request, provider, "The answer of the provider is too long: have it send fewer groups.")
    response = HttpResponse(status=303, headers={"Location": _here(provider), "Cache-Control": "no-store"})
    response.set_cookie(
        COOKIE, text, max_age=COOKIE_S, path=_here(provider), httponly=True, samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )  # fmt: skip
    return response


def _take_assertion(request: HttpRequest, provider: Provider) -> tuple[Passed, Wanted] | None:
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


def _waiting(request: HttpRequest) -> dict[str, Wanted]:
    return {key: convert(one, Wanted) for key, one in request.session.get(REQUESTS, {}).items()}


def _here(provider: Provider) -> str:
    return reverse("saml-assertion", args=[provider.id])


def _addresses(provider: Provider) -> dict[str, str]:
    """Where the browser comes back to, and where we say what we are."""
    paths = {"back": _here(provider), "metadata": reverse("saml-metadata", args=[provider.id])}
    return {name: f"{settings.PUBLIC_URL}{path}" for name, path in paths.items()}
