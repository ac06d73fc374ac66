"""Apps of a run: where a notebook listens, and who may open one by a ticket that works once, and the pass that a
browser gets for it.

A ticket is made by the dashboard for a signed-in person and is taken by the app's own origin, which answers it with a
cookie. The cookie opens this app alone, and no longer than the sign-in or token lasts that the ticket was made with.
"""

import secrets

import structlog
from django.conf import settings

from runs.engines.control_hints import control_key
from runs.interactive.addresses import MAX_PORT, App, ProxyOrigin
from runs.interactive.opening import place_of
from runs.models import Run, User
from runs.models.access import digest_of
from runs.rights.access import get_run_to_enter
from runs.rights.secrets.delivery import token_of
from runs.serving.transport import redis
from runs.values.refused import Refused
from trainyard.contract.base import BadDocument, BadMessage, Id, WireStruct, convert, decode, encode
from trainyard.contract.locks import lock, unlock
from trainyard.contract.orders import Go, Locked
from trainyard.contract.seals import PREFIX

log = structlog.get_logger(__name__)

TICKET_S = 60  # from the click to the app's own origin
PASS_S = 12 * 3600  # without a request
ENTRY_PATH = "/.trainyard/enter"


class AppPass(WireStruct, kw_only=True):
    """Data that the server keeps of a ticket and of the pass after it, encrypted, in Valkey."""

    run: Id
    rank: int
    port: int
    user: int
    secret: str  # of the token, or the key of the browser's session at the dashboard
    is_token: bool
    app_token: str = ""  # which the app itself wants to see

    @property
    def app(self) -> App:
        return App(self.run, self.rank, self.port)


def proxy_origin() -> ProxyOrigin | None:
    """Return where apps are served; None where they are not."""
    return ProxyOrigin.parse(settings.PROXY_ORIGIN) if settings.PROXY_ORIGIN else None


def issue(*, actor: User, app: App, secret: str, is_token: bool) -> str:
    """Return the address that opens the app, once, within a minute. Raises NotFound, Forbidden, and Refused where the
    run's state or the server's settings do not allow it."""
    run = get_run_to_enter(actor, app.run)
    origin = proxy_origin()
    if origin is None:
        raise Refused(
            "no-proxy",
            "This server opens no apps of runs: its administrator has to set TRAINYARD_PROXY_ORIGIN."
            f" `trainyard forward {run.pk} {app.port}` leads a port of your machine there.",
        )
    if not 1 <= app.port <= MAX_PORT:
        raise Refused("no-port", f"{app.port} is no port; ports go from 1 to {MAX_PORT}.")
    place_of(run, app.rank)
    made = AppPass(
        run=run.pk,
        rank=app.rank,
        port=app.port,
        user=actor.pk,
        secret=secret,
        is_token=is_token,
        app_token=token_of(run) if is_notebook(run) and app.rank == 0 and app.port == port_of(run) else "",
    )
    ticket = secrets.token_urlsafe(32)
    redis().set(_key("ticket", ticket), _locked("ticket", ticket, made), ex=TICKET_S)
    log.info("app.ticket", user=actor.username, run=run.pk, rank=app.rank, port=app.port)
    return f"{origin.origin_of(app)}{ENTRY_PATH}?ticket={ticket}"


def redeem(ticket: str, app: App) -> str:
    """Return the secret of a new pass for a ticket, which is used up; empty for one that opens nothing here."""
    found = _opened("ticket", ticket, redis().getdel(_key("ticket", ticket)))
    if found is None or found.app != app:
        log.warning("app.ticket_refused", run=app.run, rank=app.rank, port=app.port)
        return ""
    secret = secrets.token_urlsafe(32)
    redis().set(_key("pass", secret), _locked("pass", secret, found), ex=PASS_S)
    return secret


def pass_of(secret: str, app: App) -> AppPass | None:
    """Return the pass with this secret if it opens this app, and keep it for as long again."""
    found = _opened("pass", secret, redis().getex(_key("pass", secret), ex=PASS_S))
    return found if found is not None and found.app == app else None


def _key(kind: str, secret: str) -> str:
    return f"{PREFIX}:control:app-{kind}:{digest_of(secret)}"


def _locked(kind: str, secret: str, document: AppPass) -> str:
    return encode(lock(control_key(), _scope(kind, secret), document))


def _opened(kind: str, secret: str, text: object) -> AppPass | None:
    if not isinstance(text, bytes):
        return None
    try:
        return unlock(control_key(), _scope(kind, secret), decode(text, Locked), AppPass)
    except (BadMessage, BadDocument) as error:
        log.warning("app.pass_refused", error=str(error))
        return None


def _scope(kind: str, secret: str) -> str:
    return f"app-{kind}:{digest_of(secret)}"


# Notebook runs: where their JupyterLab listens.


def is_notebook(run: Run) -> bool:
    return bool(run.spec.get("task", {}).get("notebook"))


def port_of(run: Run) -> int:
    """Return where JupyterLab listens on its node. Raises Refused where none runs."""
    attempt = run.live_attempt()
    if not is_notebook(run) or attempt is None or not attempt.go:
        raise Refused("no-notebook", f"Run {run.name} has no notebook that runs now.")
    return convert(attempt.go, Go).master_port
