"""Second factors of a person: an authenticator app (TOTP), security keys (WebAuthn), recovery codes.

allauth keeps and checks them; its functions read the request from its middleware's context. Attempts are counted by
runs.serving.login_limits, as those of passwords are.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from allauth.mfa import app_settings
from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth as totp
from allauth.mfa.webauthn.internal import auth as webauthn
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from runs.actions import Paused
from runs.models import User
from runs.people.identity.second_factor import open_seed, seal_seed, seeds_of
from runs.rights.access import or_not_found, require_presence
from runs.rights.audit.recording import describe
from runs.rights.secrets.key_stores import KeyProblem
from runs.serving import login_limits
from runs.values.refused import Refused
from trainyard.contract.base import JsonObject
from trainyard.formats.names import without_hidden

log = structlog.get_logger(__name__)

TOTP, KEY, CODES = Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN, Authenticator.Type.RECOVERY_CODES
REPLAY = timedelta(minutes=2)  # longer than a code of an app is valid
MAX_KEYS = 10
BROWSER = "second-factor"
CODE_COUNT: int = app_settings.RECOVERY_CODE_COUNT
NEW_SEED = "second-factor-seed"  # in the session: the sealed secret of an app that has given no code yet
UNREADABLE = (
    "The server cannot open your second factor: the key of its secrets is missing, or out of reach. Use a security "
    "key, or ask an administrator."
)


class Unreadable(Refused):
    """The key of secrets is missing, or the service that has it is out of reach."""

    def __init__(self, sentence: str) -> None:
        super().__init__("no-key", sentence)


@dataclass(frozen=True)
class Factor:
    id: int
    name: str
    created_at: datetime
    last_used_at: datetime | None


@dataclass(frozen=True)
class Factors:
    app: Factor | None
    keys: list[Factor]
    num_codes: int  # recovery codes that are left

    @property
    def is_any(self) -> bool:
        return self.app is not None or bool(self.keys)


def has_any(user: User) -> bool:
    return bool(Authenticator.objects.filter(user=user).exclude(type=CODES).exists())


def factors_of(user: User) -> Factors:
    app, keys, num_codes = None, [], 0
    for row in Authenticator.objects.filter(user=user).order_by("created_at"):
        if row.type == CODES:
            num_codes = CODE_COUNT - int(row.data["used_mask"]).bit_count()
            continue
        name = "Authenticator app" if row.type == TOTP else str(row.wrap().name)
        factor = Factor(row.pk, name, row.created_at, row.last_used_at)
        if row.type == TOTP:
            app = factor
        else:
            keys.append(factor)
    return Factors(app, keys, num_codes)


def check_code(user: User, code: str, address: str) -> bool:
    """Return whether this is a code of the person's app, or a recovery code, now used up. Raises Paused, Unreadable."""
    _count(user, address)
    wanted = "".join(code.split()).replace("-", "")
    with _seeds(user), transaction.atomic():
        rows = Authenticator.objects.select_for_update().filter(user=user, type__in=(TOTP, CODES))
        used = next((row for row in rows if wanted and not _is_replay(row, wanted) and _fits(row, wanted)), None)
        if used is None:
            _refused(user, "wrong code")
            return False
        changes: dict[str, Any] = {"last_used_at": timezone.now()}
        if used.type == TOTP:
            changes["data"] = {**used.data, "used": [wanted, *used.data.get("used", [])][:5]}
        Authenticator.objects.filter(pk=used.pk).update(**changes)  # the data of recovery codes allauth has written
    login_limits.forget(account=user.username, browser=BROWSER)
    return True


def _refused(user: User, why: str) -> None:
    log.info("second_factor.refused", user=user.pk, why=why)
    describe(action="second-factor", object=f"user {user.username}", result=f"refused: {why}", is_wanted=True)


def _fits(row: Any, code: str) -> bool:
    return code.isascii() and bool(row.wrap().validate_code(code))


def _is_replay(row: Any, code: str) -> bool:
    """Return whether an app's code was used before: each is taken once, by all web processes together."""
    is_recent = row.last_used_at is not None and timezone.now() - row.last_used_at < REPLAY
    return bool(row.type == TOTP and is_recent and code in row.data.get("used", []))


def _count(user: User, address: str) -> None:
    if wait_s := login_limits.claim(account=user.username, address=address, browser=BROWSER):
        raise Paused(wait_s)


@contextmanager
def _seeds(user: User) -> Iterator[None]:
    """Raises Unreadable."""
    try:
        with seeds_of(user):
            yield
    except KeyProblem as error:
        log.warning("second_factor.unreadable", user=user.pk, error=str(error))
        raise Unreadable(UNREADABLE) from error


def new_app(request: HttpRequest, user: User) -> tuple[str, str]:
    """Return a new secret for an authenticator app and its QR code as SVG. It counts once the app's code was given;
    until then it waits in the browser's session, sealed. Raises Unreadable."""
    secret = str(totp.generate_totp_secret())
    request.session[NEW_SEED] = _sealed(user, secret)
    return secret, _picture(user, secret)


def shown_app(request: HttpRequest, user: User) -> tuple[str, str]:
    """Return the secret that was shown last, and its QR code, for another try. Raises Unreadable."""
    secret = _waiting_seed(request, user)
    return (secret, _picture(user, secret)) if secret else new_app(request, user)


def _picture(user: User, secret: str) -> str:
    adapter = get_adapter()
    return str(adapter.build_totp_svg(adapter.build_totp_url(user, secret)))


def _waiting_seed(request: HttpRequest, user: User) -> str:
    """Return the secret that waits for its first code, "" where there is none, or none that opens."""
    try:
        return open_seed(user, str(request.session[NEW_SEED])) if NEW_SEED in request.session else ""
    except KeyProblem:
        return ""


def _sealed(user: User, seed: str) -> str:
    try:
        return seal_seed(user, seed)
    except KeyProblem as error:
        raise Unreadable(f"{error} So no second factor can be stored now.") from error


def set_up_app(request: HttpRequest, user: User, code: str) -> bool:
    """Let the app be a second factor if it gives this code. Raises ProofNeeded, Paused, Unreadable."""
    require_presence(user)
    _count(user, request.META.get("REMOTE_ADDR", ""))
    secret, wanted = _waiting_seed(request, user), "".join(code.split())
    if not (secret and wanted.isascii() and totp.validate_totp_code(secret, wanted)):
        return False
    sealed = _sealed(user, secret)
    with transaction.atomic():
        Authenticator.objects.filter(user=user, type=TOTP).delete()
        # The code is used up: who saw it does not come in by it.
        data = {"secret": sealed, "used": [wanted]}
        Authenticator.objects.create(user=user, type=TOTP, data=data, last_used_at=timezone.now())
    request.session.pop(NEW_SEED, None)
    log.info("second_factor.added", user=user.pk, kind="app")
    return True


def new_key(user: User) -> JsonObject:
    """Return what the browser's ``navigator.credentials.create`` needs."""
    return dict(webauthn.begin_registration(user, passwordless=False))


def set_up_key(user: User, name: str, text: str) -> bool:
    """Let the security key be a second factor if it answered the challenge, in JSON. Raises ProofNeeded."""
    require_presence(user)
    if Authenticator.objects.filter(user=user, type=KEY).count() >= MAX_KEYS:
        return False
    try:
        answer = json.loads(text)
        webauthn.parse_registration_response(answer)
        webauthn.complete_registration(answer)
    except (ValidationError, ValueError, KeyError, TypeError, RecursionError) as error:
        log.info("second_factor.refused", user=user.pk, error=type(error).__name__)
        return False
    webauthn.WebAuthn.add(user, without_hidden(name).strip()[:60] or "Security key", answer)
    log.info("second_factor.added", user=user.pk, kind="key")
    return True


def ask_key(user: User) -> JsonObject:
    """Return what the browser's ``navigator.credentials.get`` needs."""
    return dict(webauthn.begin_authentication(user))


def check_key(user: User, answer: object, address: str) -> bool:
    """Return whether one of the person's keys answered the challenge. Raises Paused."""
    _count(user, address)
    try:
        webauthn.parse_authentication_response(answer)
        row = webauthn.complete_authentication(user, answer)
    except (ValidationError, ValueError, KeyError, TypeError) as error:
        _refused(user, type(error).__name__)
        return False
    Authenticator.objects.filter(pk=row.pk).update(last_used_at=timezone.now())
    login_limits.forget(account=user.username, browser=BROWSER)
    return True


def new_codes(user: User) -> list[str]:
    """Return new recovery codes; the former ones open nothing any more. Raises ProofNeeded, Unreadable."""
    require_presence(user)
    data = {"seed": _sealed(user, RecoveryCodes.generate_seed()), "used_mask": 0}
    with transaction.atomic():
        Authenticator.objects.filter(user=user, type=CODES).delete()
        row = Authenticator.objects.create(user=user, type=CODES, data=data)
    with _seeds(user):
        codes = RecoveryCodes(row).get_unused_codes()
    log.info("second_factor.codes", user=user.pk)
    return [f"{code[:4]}-{code[4:]}" for code in codes]


def remove(user: User, factor_id: int) -> str:
    """Forget an app or a key, with the last one the recovery codes too. Return its name. Raises ProofNeeded,
    NotFound."""
    require_presence(user)
    with transaction.atomic():
        rows = Authenticator.objects.filter(user=user, pk=factor_id).exclude(type=CODES)
        row = or_not_found(rows.first(), "You have no such second factor.")
        name = "the authenticator app" if row.type == TOTP else str(row.wrap().name)
        row.delete()
        if not has_any(user):
            Authenticator.objects.filter(user=user, type=CODES).delete()
    log.info("second_factor.removed", user=user.pk)
    return name
