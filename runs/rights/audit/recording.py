"""Requests that are acts, their names, and their recording: for pages, REST and the admin alike."""

import re
import threading
import time
from collections.abc import Mapping
from typing import Any

import structlog
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db import DatabaseError
from django.db.models import Model
from django.dispatch import Signal
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from runs.models import Cluster, Dataset, Job, Node, Project, Report, Run, Token, User
from runs.models.access import digest_of
from runs.rights.audit.chain import append
from runs.rights.audit.changes import difference, row_name, values_of
from runs.rights.audit.facts import Act, current_act

log = structlog.get_logger(__name__)

OK = "ok"
SAFE = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))
# POSTs that change nothing that a person decides about: data of training, questions, views of charts. Requests of nodes
# have their seal and are recorded with the attempt.
NO_ACTS = re.compile(
    r"api/v1/(node/.*|nodes/join|plans|bundles|runs/<run_id>/(points|frames)|projects/<project_id>/workspace"
    r"|.*/(preview|data|batch))|launch/(preview|code)/|jump/|.*/preview/?|scim/v2/\.search"
)
READS = re.compile(r"api/v1/runs/<run_id>/logs/(text|file|download)|api/v1/audit/export.*|audit/export.*")
MODELS: dict[str, type[Model]] = {
    "run_id": Run, "project_id": Project, "cluster_id": Cluster, "node_id": Node, "job_id": Job,
    "dataset_id": Dataset, "token_id": Token, "user_id": User, "report_id": Report,
}  # fmt: skip
PARAMETER = re.compile(r"<(?:\w+:)?\w+>")
VERBS = {"PUT": "set", "PATCH": "edit", "DELETE": "delete"}
REFUSED_EVERY_S = 60.0  # tries that are refused alike are one row in this time
REFUSED_KEYS = 5_000
REFUSED_A_MINUTE = 120  # rows of refused tries from all together
APIS = ("/api/", "/mlflow/api/")  # paths below which errors are documents, and a token is taken


class Subject:
    """A row that the address names, as it was before the act."""

    def __init__(self, row: Any) -> None:
        self.row, self.before = row, values_of(row)

    def compare(self, act: Act) -> None:
        now = type(self.row)._base_manager.filter(pk=self.row.pk).first()
        if now is None:
            act.changed(row_name(self.row), self.before, {})
            return
        changed = difference(self.before, values_of(now))
        if any(changed):
            act.changed(row_name(self.row), *changed)


def is_act(method: str, route: str) -> bool:
    """Return whether the request is recorded whatever comes of it."""
    if method in SAFE:
        return method == "GET" and READS.fullmatch(route) is not None
    return NO_ACTS.fullmatch(route) is None


def action_name(method: str, route: str) -> str:
    """Return what the act is called, after its address: ``runs.stop``, ``projects.secrets.set``."""
    path = route.removeprefix("api/v1/").strip("/^$")
    words = [word for word in PARAMETER.sub("", path).split("/") if word]
    ends_in_parameter = path.endswith(">")
    if method in VERBS:
        words.append(VERBS[method])
    elif method == "POST" and len(words) == 1 and not ends_in_parameter and route.startswith("api/"):
        words.append("create")
    elif method == "GET":
        words.append("read")
    return ".".join(words) or "home"


def object_name(kwargs: Mapping[str, str | int]) -> str:
    """Return what the address names, without secrets that stand in some addresses."""
    shown = {name: value for name, value in kwargs.items() if "secret" not in name}
    return ", ".join(f"{name.removesuffix('_id').removesuffix('_name')} {value}" for name, value in shown.items())


def subjects_of(kwargs: Mapping[str, str | int]) -> list[Subject]:
    """Return the rows that the address names, as they are now; nothing for what is not there."""
    rows = [_row(MODELS[name], str(value)) for name, value in kwargs.items() if name in MODELS]
    return [Subject(row) for row in rows if row is not None]


def _row(model: Any, key: str) -> Any:
    rows = model._base_manager
    try:
        row = rows.filter(pk=key).first()
    except (ValueError, TypeError):
        return None
    return row or (rows.filter(name=key).first() if model in (Project, Cluster, Node) else None)


def project_of(subjects: list[Subject]) -> str:
    rows = (subject.row for subject in subjects)
    projects = (row if isinstance(row, Project) else getattr(row, "project", None) for row in rows)
    return next((project.name for project in projects if isinstance(project, Project)), "")


def identify(act: Act, request: HttpRequest) -> None:
    """Write into the act who asks, with what, and from where."""
    user = getattr(request, "user", None)
    act.address = act.address or request.META.get("REMOTE_ADDR", "") or ""
    if isinstance(user, User) and not act.actor:
        act.actor, act.actor_number = user.username, user.pk
    act.token = act.token or _token_of(request, user)


def _named(user: Any) -> str:
    token = getattr(user, "token", None)
    return f"{token.pk} {token.name}" if isinstance(token, Token) else ""


def _token_of(request: HttpRequest, user: Any) -> str:
    if known := _named(user):
        return known
    if isinstance(user, User) and not request.path.startswith(APIS):
        return ""  # a page takes the session, whatever comes beside it
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        return ""
    token = Token.objects.filter(digest=digest_of(secret.strip())).only("pk", "name").first()
    return f"{token.pk} {token.name}" if token else "unknown"


def finish(act: Act, request: HttpRequest, response: HttpResponseBase, subjects: list[Subject]) -> None:
    """Record the act with what came of it. Refused tries alike are one row a minute."""
    identify(act, request)
    for subject in subjects:
        subject.compare(act)
    act.project = act.project or project_of(subjects)
    act.result = act.result or result_of(response.status_code)
    if act.result != OK:
        act.before, act.after = {}, {}
        act.repeats = refusals.count((act.actor, act.address, act.action, act.result))
    if act.repeats:
        record(act)


def result_of(status: int) -> str:
    return OK if status < 400 else f"refused: {status}" if status < 500 else f"failed: {status}"


def record(act: Act) -> None:
    """Add the act to the chain. Where the database does not take it the server's log has it whole."""
    try:
        append(act)
    except DatabaseError as error:
        log.critical("audit.not_written", error=str(error), act=vars(act))


class Refusals:
    """Counts refused tries: the first of a kind is recorded at once, the rest of the minute with the next one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: dict[tuple[str, ...], tuple[float, int]] = {}
        self._minute, self._num_rows = 0.0, 0

    def count(self, kind: tuple[str, ...], now: float | None = None) -> int:
        """Return for how many tries a row is to be written; 0: none now."""
        now = time.monotonic() if now is None else now
        with self._lock:
            if now - self._minute >= REFUSED_EVERY_S:
                self._minute, self._num_rows = now, 0
            since, waiting = self._since.get(kind, (-REFUSED_EVERY_S, 0))
            if now - since < REFUSED_EVERY_S or self._num_rows >= REFUSED_A_MINUTE:
                self._keep(kind, since, waiting + 1)
                return 0
            self._num_rows += 1
            self._keep(kind, now, 0)
            return waiting + 1

    def _keep(self, kind: tuple[str, ...], since: float, waiting: int) -> None:
        self._since.pop(kind, None)
        self._since[kind] = (since, waiting)
        if len(self._since) > REFUSED_KEYS:
            self._since.pop(next(iter(self._since)))


refusals = Refusals()


def act_of(user: User, action: str, *, object: str = "", project: str = "", address: str = "") -> Act:
    """Return an act of a person that comes by no request, as over a socket."""
    return Act(
        actor=user.username, actor_number=user.pk, token=_named(user), address=address, action=action, object=object,
        project=project, result=OK,
    )  # fmt: skip


def record_refused(act: Act, why: str) -> None:
    """Record a try that was refused, within the bounds of all of them."""
    act.result = f"refused: {why}"
    act.repeats = refusals.count((act.actor, act.address, act.action, act.result))
    if act.repeats:
        record(act)


def describe(**facts: Any) -> None:
    """Set facts of the act that goes on, where there is one: its object, project, action or result."""
    act = current_act()
    if act is not None:
        for name, value in facts.items():
            setattr(act, name, value)


# Sign-ins, sign-outs and tries that failed, whichever way somebody came: Django's own signals tell of all of them.


def watch_sign_ins() -> None:
    """Connect the signals, once, as the app is ready."""
    user_logged_in.connect(_signed, dispatch_uid="audit")
    user_logged_out.connect(_signed, dispatch_uid="audit")
    user_login_failed.connect(_failed, dispatch_uid="audit")


def _signed(sender: Any, user: Any, signal: Signal, **_: Any) -> None:
    act = current_act()
    if act is not None and isinstance(user, User):
        act.action = "sign-in" if signal is user_logged_in else "sign-out"
        act.is_wanted, act.object = True, f"user {user.username}"
        act.actor, act.actor_number = user.username, user.pk


def _failed(sender: Any, credentials: Mapping[str, object], **_: Any) -> None:
    """A name that nobody has is not kept: people type their password there now and then."""
    act = current_act()
    if act is None:
        return
    name = User.objects.filter(username=str(credentials.get("username", ""))[:150]).values_list("username", flat=True)
    known = name.first()
    act.is_wanted, act.action, act.object = True, "sign-in", f"user {known}" if known else "an unknown name"
    act.result = "refused: wrong password" if known else "refused: unknown name"
