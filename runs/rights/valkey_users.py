"""A Valkey user for each node, which may reach what the node needs and nothing of other nodes or of the server.

Control makes the users, again if Valkey lost them; so does the web process when a node joins. Where the server's own
user may not make users, no node is let in, and /health says so, until NODES_SHARE_VALKEY_USER has all nodes share it.
"""

import hashlib
import hmac
import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import structlog
from django.conf import settings
from redis.exceptions import RedisError, ResponseError

from runs.models import Node
from runs.serving import node_troubles
from runs.serving.transport import redis
from trainyard.contract import seals
from trainyard.grouping import grouped

log = structlog.get_logger(__name__)

USER = f"{seals.PREFIX}-node-"
SEPARATE_KEY = f"{seals.PREFIX}:control:separate"  # whether nodes have their own users, for /health
NO_USERS = (
    "No node is let in: nodes cannot have users of their own in Valkey, since the user in REDIS_URL may not make any. "
    "Give it the right to (ACL SETUSER; Redis 7.0 or newer), or have all nodes share it with NODES_SHARE_VALKEY_USER=1."
)
AGAIN_S = 60.0  # after Valkey refused

# Without a key: what a connection, kombu's reader and a supervisor's hint need.
COMMANDS = ("ping", "select", "client|setinfo", "client|setname", "multi", "exec", "discard", "time", "publish")

MIN_CONNECTIONS, MAX_CONNECTIONS = 128, 2_000  # of one node: a supervisor has a few, so it depends on the slots

_made: dict[str, str] = {}  # what this process has made: the user's name and the hash of its password
_refused_at: float | None = None


class NoUsers(Exception):
    """The message is a sentence that says what to do."""


def user_of(node_id: str) -> str:
    return f"{USER}{node_id}"


def password_of(node: Node) -> str:
    """Made from the node's key, so that it changes with it; what is sealed with the key cannot be made from it."""
    return hmac.new(bytes.fromhex(node.key), b"valkey user", hashlib.sha256).hexdigest()


def rules_of(node: Node) -> list[str]:
    """Return the words of ACL SETUSER."""
    queue = seals.node_queue(node.name)
    return [
        "reset",
        "on",
        f"#{hashlib.sha256(password_of(node).encode()).hexdigest()}",
        f"&{seals.CHANGED_CHANNEL}",
        *(f"+{name}" for name in COMMANDS),
        # Each command with its own keys: who may set a document may not set the stream, which all nodes share.
        f"(+get %R~{seals.down_key(node.pk)} %R~{seals.EPOCH_KEY})",
        f"(+set %RW~{seals.up_key(node.pk)} %RW~{seals.report_key(node.pk, '*')})",
        f"(+xadd +xlen +memory|usage %RW~{seals.PREFIX}:stream:*)",
        f"(+xadd %RW~{seals.session_key(node.pk, '*', 'up')})",
        f"(+brpop %RW~{seals.session_key(node.pk, '*', 'down')})",
        f"(+brpop +llen %RW~{queue} %RW~{queue}\x06\x16?)",  # …and the same queue by priority
        f"(+sadd %W~_kombu.binding.{queue} %W~_kombu.binding_permanent.{queue})",
    ]


def url_for(node: Node) -> str:
    """Make the node's user, afresh where its key is another, and return the address with which it reaches Valkey.
    Raises NoUsers."""
    if _make([node], anew=True):
        return _own_url(node)
    if not settings.NODES_SHARE_VALKEY_USER:
        raise NoUsers(NO_USERS)
    return str(settings.REDIS_URL)


def tls_url_for(node: Node) -> str:
    """Return the address with TLS for a node on another machine than the embedded Valkey; empty where there is none, or
    nodes have no users of their own: the server's own password leaves this machine for nobody."""
    return _own_url(node, str(settings.VALKEY_TLS_URL)) if settings.VALKEY_TLS_URL and _make([node]) else ""


def is_url_of(node: Node, url: str) -> bool:
    """Return whether a node that has this address need not join again."""
    if _make([node]):
        return url == _own_url(node)
    return bool(settings.NODES_SHARE_VALKEY_USER) and url == settings.REDIS_URL


def keep_up(nodes: Iterable[Node]) -> None:
    """Make the users that Valkey does not have, remove those of nodes that are gone, and end connections that a node
    has too many of. Cheap when nothing changed."""
    nodes = list(nodes)
    if not _make(nodes):
        return
    client: Any = redis()
    known = {str(name, "utf-8") if isinstance(name, bytes) else str(name) for name in client.acl_users()}
    others = {name.removeprefix(USER) for name in known if name.startswith(USER)} - {node.pk for node in nodes}
    # One may have joined since the nodes were read.
    for gone in others - set(Node.objects.filter(pk__in=others, removed_at=None).values_list("pk", flat=True)):
        client.acl_deluser(user_of(gone))
        _save(client)
        log.info("valkey.user_removed", node=gone)
    _end_surplus(nodes)


def _end_surplus(nodes: Iterable[Node]) -> None:
    """End the newest connections of a node that has more than it can need: all users share Valkey's limit, and nobody
    else could connect any more."""
    valkey: Any = redis()
    connections = grouped((client.get("user", ""), int(client["id"])) for client in valkey.client_list())
    for node in nodes:
        limit = min(MIN_CONNECTIONS + 8 * node.slots, MAX_CONNECTIONS)
        if not (surplus := sorted(connections.get(user_of(node.pk), ()))[limit:]):
            continue
        pipeline = valkey.pipeline(transaction=False)
        for number in surplus:
            pipeline.client_kill_filter(_id=number)
        pipeline.execute(raise_on_error=False)  # one that has gone by itself is an error
        sentence = f"Node {node.name} had {limit + len(surplus):,} connections to Valkey; all above {limit} were ended."
        node_troubles.note(node.pk, node_troubles.CONNECTIONS, len(surplus))
        log.warning("valkey.too_many_connections", node=node.name, sentence=sentence)


def _make(nodes: list[Node], *, anew: bool = False) -> bool:
    """Make the missing users. False where Valkey does not let us. ``anew`` ends the connections of the one before."""
    global _refused_at
    if _refused_at is not None and time.monotonic() - _refused_at < AGAIN_S:
        return False
    client: Any = redis()
    try:
        known = {name if isinstance(name, bytes) else str(name).encode() for name in client.acl_users()}
        unknown: set[str] | None = None
        for node in nodes:
            name, rules = user_of(node.pk), rules_of(node)
            if name.encode() in known and not anew and _made.get(name) == rules[2]:
                continue
            if anew:
                client.acl_deluser(name)
            unknown = _unknown_to(client) if unknown is None else unknown
            client.execute_command("ACL", "SETUSER", name, *(rule for rule in rules if rule not in unknown))
            _made[name] = rules[2]
            _save(client)
        client.set(SEPARATE_KEY, 1)
    except ResponseError as error:  # no permission, or a server that has no users
        log.warning("valkey.users_refused", error=str(error), share=settings.NODES_SHARE_VALKEY_USER)
        _refused_at = time.monotonic()
        client.set(SEPARATE_KEY, 0)
        return False
    _refused_at = None
    return True


def _unknown_to(client: Any) -> set[str]:
    """Return the rules that the server refuses, since it does not know the command: Redis 7.0 has no CLIENT SETINFO."""
    found = client.execute_command("COMMAND INFO", *COMMANDS)
    return {f"+{name}" for name, about in zip(COMMANDS, found, strict=True) if about is None}


def remove(node: Node) -> None:
    """Take the node's way into Valkey away, and end its connections. Control tries again where that fails now."""
    _made.pop(user_of(node.pk), None)
    try:
        redis().acl_deluser(user_of(node.pk))
        _save(redis())
    except (RedisError, OSError) as error:
        log.warning("valkey.user_not_removed", node=node.name, error=str(error))


def _save(client: Any) -> None:
    """Keep the users over a restart of Valkey, where it has a file for them: the embedded one has."""
    try:
        client.acl_save()
    except ResponseError as error:  # no file, or no room: control makes them again after a restart
        log.debug("valkey.users_unsaved", error=str(error))


def _own_url(node: Node, url: str = "") -> str:
    """Return REDIS_URL, or another address of it, with the node's name and password instead of the server's."""
    parts = urlsplit(url or str(settings.REDIS_URL))
    query = urlencode([(name, value) for name, value in parse_qsl(parts.query) if name not in ("username", "password")])
    place = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{user_of(node.pk)}:{password_of(node)}@{place}", query=query).geturl()
