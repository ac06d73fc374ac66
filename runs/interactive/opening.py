"""Beginning and ending sessions: the rules, the order to the node, and what the run's history keeps."""

import secrets
import shlex
import time
from typing import NamedTuple

import structlog
from django.utils import timezone

from runs.engines.control_hints import control_key, publish
from runs.models import Attempt, Placement, Run, User
from runs.rights.access import Forbidden, get_run_to_enter
from runs.rights.audit.recording import act_of, record_refused
from runs.rights.audit.recording import record as audit_record
from runs.serving.transport import redis
from runs.values.refused import Refused
from runs.values.status import Phase, Status
from trainyard.contract import sessions
from trainyard.contract.base import BadMessage, Id, WireStruct
from trainyard.contract.locks import lock
from trainyard.contract.seals import ATTACH, PREFIX, command_scope, node_queue, node_scope, seal, session_key, unseal

log = structlog.get_logger(__name__)

KEPT_S = 120  # Valkey keeps what is known of a session for so long after the server has last touched it
SHOWN_CHARACTERS = 300  # of a command line in a sentence


class SessionRecord(WireStruct, kw_only=True):
    """Data that the server itself keeps of an open session, sealed, in Valkey."""

    session: Id
    user: int
    run: Id
    attempt: Id
    node: Id
    node_name: str
    rank: int
    what: str  # for sentences
    terminal: bool = False
    began_at: float = 0.0  # Unix seconds


class OpenSession(NamedTuple):
    """A session with what is needed to serve it."""

    record: SessionRecord
    node_key: str
    link: int  # which connection of its person this is, from 1


def begin(*, actor: User, run_id: str, wish: sessions.SessionWish, address: str) -> OpenSession:
    """Have a node start a session, and record who began it. Raises NotFound, Forbidden, and Refused where the run's
    state does not allow it."""
    try:
        run = get_run_to_enter(actor, run_id)
    except Forbidden as error:
        record_refused(act_of(actor, "runs.session.begin", object=f"run {run_id}", address=address), str(error))
        raise
    if sum(map(len, wish.command)) > sessions.MAX_COMMAND_CHARACTERS:
        raise Refused("too-long", f"The command has more than {sessions.MAX_COMMAND_CHARACTERS:,} characters.")
    attempt, placement = place_of(run, wish.rank)
    node, session = placement.node, secrets.token_hex(16)
    command = {name: getattr(wish, name) for name in sessions.SessionCommand.__struct_fields__}
    if not wish.terminal and not wish.port:  # others have no limits unless somebody sets some
        command["time_limit_s"] = wish.time_limit_s or sessions.DEFAULT_LIMIT_S
        command["output_limit_bytes"] = wish.output_limit_bytes or sessions.DEFAULT_OUTPUT_BYTES
    order = sessions.SessionOrder(**command, session=session, attempt=attempt.pk, run=run.pk, fence=attempt.fence)
    record = SessionRecord(
        session=session,
        user=actor.pk,
        run=run.pk,
        attempt=attempt.pk,
        node=node.pk,
        node_name=node.name,
        rank=wish.rank,
        what=_what(wish),
        terminal=wish.terminal,
        began_at=time.time(),
    )
    up = session_key(node.pk, session, "up")
    with redis().pipeline() as pipeline:
        pipeline.xadd(up, {"d": b""}, id="0-1")  # the node appends only where the server has begun
        pipeline.expire(up, KEPT_S)
        pipeline.set(_record_key(session), seal(control_key(), _record_scope(session), record), ex=KEPT_S)
        pipeline.set(_link_key(session), 1, ex=KEPT_S)
        pipeline.execute()
    sentence = f"{actor} began {record.what} beside rank {wish.rank} on {node.name}."
    data = {"session": session, "rank": wish.rank, "node": node.name, "address": address, "command": wish.command}
    run.record("session-began", sentence, data={**data, "port": wish.port}, actor=actor, attempt=attempt)
    act = act_of(actor, "runs.session.begin", object=_object(record), project=run.project.name, address=address)
    act.after = {f"session {session}": {"node": node.name, "command": wish.command, "port": wish.port}}
    audit_record(act)
    log.info("session.began", user=actor.username, run=run.pk, attempt=attempt.pk, **data)
    document = sessions.Attach(locked=lock(node.key, node_scope("session", node.pk), order).locked, at=time.time())
    publish(ATTACH, node_queue(node.name), seal(node.key, command_scope(ATTACH, node.pk), document))
    return OpenSession(record, node.key, 1)


def resume(*, actor: User, run_id: str, session: str) -> OpenSession:
    """Return a session of this person that goes on, for their new connection. Raises NotFound, Forbidden, Refused."""
    run = get_run_to_enter(actor, run_id)
    record = _record_of(session)
    if record is None or (record.user, record.run) != (actor.pk, run.pk) or ended_sentence(record):
        raise Refused("session-over", "The session has ended. Begin a new one.")
    node = Placement.objects.select_related("node").get(attempt=record.attempt, node=record.node).node
    return OpenSession(record, node.key, int(redis().incr(_link_key(session))))


def ended_sentence(record: SessionRecord) -> str:
    """Return why the session cannot go on, as far as the database knows; empty where it can."""
    attempt = Attempt.objects.filter(pk=record.attempt).first()
    if attempt is None or attempt.ended_at is not None:
        return "The session ended with its attempt: the ranks have ended or are being placed anew."
    return ""


def keep(record: SessionRecord, link: int) -> bool:
    """Keep what Valkey has of the session. False where the session has gone on in another connection."""
    with redis().pipeline(transaction=False) as pipeline:
        pipeline.get(_link_key(record.session))
        for direction in ("up", "down"):
            pipeline.expire(session_key(record.node, record.session, direction), KEPT_S)
        pipeline.expire(_record_key(record.session), KEPT_S)
        pipeline.expire(_link_key(record.session), KEPT_S)
        newest = pipeline.execute()[0]
    return newest is not None and int(newest) == link


def is_newest(record: SessionRecord, link: int) -> bool:
    """Return whether the session has not gone on in another connection."""
    newest = redis().get(_link_key(record.session))
    return isinstance(newest, bytes) and int(newest) == link


def finish(record: SessionRecord, end: sessions.SessionEnd) -> None:
    """Record how a session ended, once, and forget it."""
    if not redis().delete(_record_key(record.session)):
        return  # another connection has recorded it
    keys = [session_key(record.node, record.session, direction) for direction in ("up", "down")]
    redis().delete(_link_key(record.session), *keys)
    actor = User.objects.filter(pk=record.user).first()
    run = Run.objects.filter(pk=record.run).first()
    data = {"session": record.session, "rank": record.rank, "node": record.node_name, "code": end.code}
    data |= {"exit_code": end.exit_code, "bytes_in": end.bytes_in, "bytes_out": end.bytes_out}
    log.info("session.ended", user=record.user, run=record.run, attempt=record.attempt, **data)
    if run is None:
        return
    seconds = max(0, round(time.time() - record.began_at))
    sentence = (
        f"{record.what[0].upper()}{record.what[1:]} of {actor} beside rank {record.rank} ended after {seconds} s with "
        f"{end.bytes_in:,} bytes sent and {end.bytes_out:,} received. {end.sentence}"
    )
    attempt = Attempt.objects.filter(pk=record.attempt).first()
    run.record("session-ended", sentence.strip(), data=data, actor=actor, attempt=attempt)
    if actor is not None:
        act = act_of(actor, "runs.session.end", object=_object(record), project=run.project.name)
        act.after = {f"session {record.session}": {**data, "seconds": seconds}}
        audit_record(act)


def _object(record: SessionRecord) -> str:
    return f"run {record.run}, rank {record.rank}"


def place_of(run: Run, rank: int) -> tuple[Attempt, Placement]:
    """Return the attempt that runs, and its part with this rank, whose node is in contact. Raises Refused."""
    attempt = run.live_attempt()
    if attempt is None or run.status in (Status.QUEUED, Status.PAUSED):
        raise Refused("not-running", f"Run {run.name} is {run.status}. Sessions begin beside ranks that run.")
    if not 0 <= rank < attempt.world_size:
        raise Refused("no-rank", f"Run {run.name} has no rank {rank}; it has the ranks 0 to {attempt.world_size - 1}.")
    placement = attempt.placements.select_related("node").filter(first_rank__lte=rank).order_by("-first_rank").first()
    if placement is None or rank >= placement.first_rank + placement.num_ranks:
        raise Refused("no-rank", f"Rank {rank} of run {run.name} is placed on no node.")
    if placement.phase != Phase.RUNNING:
        words = f"Rank {rank} is {placement.phase} on {placement.node.name}. Try again once it runs."
        raise Refused("not-running", words)
    if not placement.node.is_in_contact(timezone.now()):
        raise Refused("node-away", f"Node {placement.node.name} is out of contact: nothing can be started there now.")
    return attempt, placement


def _what(wish: sessions.SessionWish) -> str:
    if wish.port is not None:
        return f"forwarding of port {wish.port}"
    line = shlex.join(wish.command)
    shown = "the command " + (line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]}…")
    if wish.terminal:
        return f"a terminal with {shown}" if line else "a terminal"
    return shown


def _record_of(session: str) -> SessionRecord | None:
    text = redis().get(_record_key(session))
    if not isinstance(text, bytes):
        return None
    try:
        return unseal(control_key(), _record_scope(session), text, SessionRecord)
    except BadMessage as error:
        log.warning("session.refused", error=str(error))
        return None


def _record_key(session: str) -> str:
    return f"{PREFIX}:control:session:{session}"


def _link_key(session: str) -> str:
    return f"{PREFIX}:control:session-link:{session}"


def _record_scope(session: str) -> str:
    return f"session-record:{session}"
