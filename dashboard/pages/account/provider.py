"""Sign-in through an identity provider: the way there and the way back."""

from typing import Any

import structlog
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.views import callback
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.crypto import constant_time_compare, salted_hmac
from django.views.decorators.csrf import csrf_exempt
from requests import RequestException

from dashboard.pages.account import saml
from dashboard.pages.account.sign_in import enter, sign_in_context, wait_with
from dashboard.pages.shared.frame import page, person, refusal, safe_next, show
from runs.models import User
from runs.people.identity.checking import Arrival, BadLogout, end_at_providers_word
from runs.people.identity.people import NotAdmitted, connect, person_of
from runs.people.identity.provider_calls import ProviderTokens, lock_tokens
from runs.people.identity.providers import Claims, Provider, claims_of
from runs.rights.access import NotFound, require_presence
from runs.rights.access.operations import PUBLIC
from runs.rights.audit.recording import describe
from runs.rights.secrets.key_stores import KeyProblem

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
        return saml.lead(request, provider, process=process, after=after)
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


def not_taken(request: HttpRequest, provider: Provider, why: str) -> HttpResponse:
    """Refuse what a provider sent, with a sentence, and record that."""
    log.info("sign_in.not_admitted", provider=provider.id, reason=why)
    describe(action="sign-in", object=f"provider {provider.id}", result=f"refused: {why}"[:200], is_wanted=True)
    return _refuse(request, why, 403)


@csrf_exempt  # the provider's page posts what the provider signed
@page(get=PUBLIC, post=PUBLIC)
def assertion(request: HttpRequest, provider_id: str) -> HttpResponse:
    """The answer of a SAML provider: checked as it is posted, which comes without our cookies, then taken by a GET."""
    provider = known_provider(provider_id, "saml")
    if request.method == "POST":
        return saml.check(request, provider)
    arrived = saml.take(request, provider) if request.method == "GET" else None
    if arrived is None:
        return failed(request, provider.name)
    passed, wanted = arrived
    arrival = Arrival(provider.id, passed.claims.subject, "", ends_at=passed.ends_at)
    return let_in(request, provider, passed.claims, arrival, process=wanted.process, wanted=wanted.after)


@page(get=PUBLIC)
def metadata(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Show a SAML provider the metadata of this site."""
    return saml.metadata(known_provider(provider_id, "saml"))


def failed(request: HttpRequest, name: str, *, is_cancelled: bool = False) -> HttpResponse:
    """The provider, or the way back, broke the sign-in off."""
    if is_cancelled:
        return _refuse(request, f"You broke off the sign-in at {name}.", 401)
    return _refuse(request, f"The sign-in at {name} did not come to an end. Begin again.", 401)


def _refuse(request: HttpRequest, problem: str, status: int) -> HttpResponse:
    if request.user.is_authenticated:
        return refusal(request, status, problem)
    return show(request, "sign_in.html", sign_in_context(problem=problem), status=status)
