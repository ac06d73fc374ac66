"""Work of `up` in the database: reach it, bring its tables up to date, and make the first person, project, cluster.

All of it is blocking; `up` calls it from one thread beside its loop.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import tomllib
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashboard.home import authorities_file
from dashboard.up.checks import CannotStart
from trainyard.spooling.plain_files import write_private

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

    from runs.models import Node, User

CLIENT = "client.toml"
CLIENT_LIFE = timedelta(hours=2)  # of the token in it
RENEW_EVERY_S, RENEW_AGAIN_S = 3600.0, 60.0
THIS_MACHINE = "this machine"  # the name of its tokens
ROOT = Path(__file__).resolve().parents[2]
OTHER_USER = "Scripts of runs are other Unix users here, and cannot read Trainyard's files."
TOO_OLD = (
    "was made before 0.1.0, by a version that this one cannot upgrade. Start a version in between with it once, "
    "or begin in another TRAINYARD_HOME."
)
# The oldest that tests run on; Django's own limits are lower.
OLDEST = {"postgresql": ("PostgreSQL", (15,)), "sqlite": ("SQLite", (3, 40))}
REACH = {  # by the mechanism of isolation, docs/isolation.md
    "user and namespace": OTHER_USER,
    "user": OTHER_USER,
    "namespace": "Scripts of runs see a disk without Trainyard's files here. What else you may read, they can read.",
    "none": "Take care: scripts of runs can read all that your user can read, Trainyard's keys and databases among it.",
}


def set_up_django() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    import django

    try:
        django.setup()
    except ValueError as error:  # an environment variable that says what no setting takes
        raise CannotStart(str(error)) from error


def open_database(*, is_restored: bool = False, only_look: bool = False) -> int:
    """Reach every database and migrate what is not up to date. Returns how many migrations were applied, or would be
    where it is to ``only_look``.

    Whoever was erased and came back with an older database is erased again; ``is_restored``: the caller does that."""
    from django.core.management import call_command
    from django.db import NotSupportedError, OperationalError, connections, router
    from django.db.migrations.executor import MigrationExecutor

    num_applied = 0
    for alias in connections:
        connection = connections[alias]
        place = place_of(connection.settings_dict)
        try:
            connection.ensure_connection()
        except OperationalError as error:
            reason = str(error).strip().splitlines()[0]
            raise CannotStart(f"The database {place} cannot be reached: {reason}") from error
        except NotSupportedError as error:
            raise CannotStart(f"The database {place} is too old: {error}") from error
        name, oldest = OLDEST[connection.vendor]
        if (found := connection.get_database_version()) < oldest:
            versions = (".".join(map(str, version)) for version in (found, oldest))
            raise CannotStart("The database {} is {} {}; Trainyard needs {} or newer.".format(place, name, *versions))
        if _is_too_old(connection):
            raise CannotStart(f"The database {place} {TOO_OLD}")
        executor = MigrationExecutor(connection)
        leaves = [leaf for leaf in executor.loader.graph.leaf_nodes() if router.allow_migrate(alias, leaf[0])]
        plan = executor.migration_plan(leaves)
        num_applied += len(plan)
        if plan and not only_look:  # the command itself takes half a second to find out that there is nothing to do
            only = [label for label, _ in leaves] if len(leaves) == 1 else []  # of the metrics' file: seconds less
            record_within()
            call_command("migrate", *only, database=alias, interactive=False, verbosity=0)
    if not (is_restored or only_look):
        erase_again()
    return num_applied


@cache
def record_within() -> None:
    """Have each migration recorded in its own transaction. Django records one that left statements for its end, as
    foreign keys are, in the next: who is killed between the two finds tables that nothing knows of."""
    from django.db.migrations import Migration

    plain = Migration.apply

    def apply(self: Migration, state: Any, editor: Any, collect_sql: bool = False) -> Any:
        found = plain(self, state, editor, collect_sql)
        while editor.deferred_sql:
            editor.execute(editor.deferred_sql.pop(0))
        return found

    Migration.apply = apply  # type: ignore[assignment,method-assign]


def _is_too_old(connection: BaseDatabaseWrapper) -> bool:
    """Return whether some of the migrations that one stands for were applied, and others never were."""
    from django.db.migrations.loader import MigrationLoader
    from django.db.migrations.recorder import MigrationRecorder

    applied = MigrationRecorder(connection).applied_migrations().keys()
    return any(
        (one.app_label, one.name) not in applied and 0 < len(applied & set(one.replaces)) < len(one.replaces)
        for one in MigrationLoader(None).disk_migrations.values()
    )


def erase_again() -> int:
    from runs.privacy import erasure

    try:
        return erasure.catch_up()
    except erasure.BadList as error:
        raise CannotStart(str(error)) from error


def place_of(database: dict[str, object]) -> str:
    """Name a database without its password."""
    if not database.get("HOST"):
        return str(database["NAME"])
    port = f":{database['PORT']}" if database.get("PORT") else ""
    return f"{database['NAME']} on {database['HOST']}{port}"


def owner() -> User:
    """Return the user that `up` acts for: the person of the first start, or the first administrator that there is."""
    from runs.actions import first_start
    from runs.models import User

    made = first_start()
    if made is not None:
        return made
    found = User.objects.filter(is_superuser=True, is_active=True).order_by("pk").first()
    if found is None:
        raise CannotStart("Nobody here is an administrator: make one with `trainyard manage createsuperuser`.")
    return found


def write_client(home: Path, url: str, actor: User) -> str:
    """Write ``client.toml`` for the terminal and scripts on this machine, with a secret that opens for CLIENT_LIFE what
    ``actor`` may, to programs of this user alone: see dashboard.http.own_clients. `up` writes the next one in time.
    Returns the token's id. The one before lasts to its own end: somebody may be using it.
    """
    from django.utils import timezone

    from runs.actions import create_token
    from runs.models import Token
    from runs.models.access import digest_of
    from runs.rights.access import MACHINE_PREFIX, token_of_machine

    now = timezone.now()
    Token.objects.filter(user=actor, name=THIS_MACHINE, expires_at__lt=now).delete()
    token, _ = create_token(actor=actor, name=THIS_MACHINE, expires_at=now + CLIENT_LIFE)
    secret = MACHINE_PREFIX + secrets.token_urlsafe(32)
    token.digest = digest_of(token_of_machine(secret))
    token.save(update_fields=["digest"])
    # A JSON string is a TOML basic string.
    authorities = authorities_file(home)
    trust = f"ca = {json.dumps(str(authorities))}\n" if authorities is not None else ""
    write_private(home / CLIENT, f"url = {json.dumps(url)}\ntoken = {json.dumps(secret)}\n{trust}")
    return token.pk


def revoke_client(home: Path) -> None:
    """End the token behind ``client.toml``, or that an older version wrote into it, and those that this machine had
    before it."""
    from runs.models import Token
    from runs.models.access import digest_of
    from runs.rights.access import token_of_machine

    secret = str(stored(home / CLIENT).get("token", ""))
    token = Token.objects.filter(digest__in=[digest_of(secret), digest_of(token_of_machine(secret))]).first()
    if token is not None:
        Token.objects.filter(user=token.user, name=token.name, expires_at__isnull=False).delete()
        token.delete()


def join_secret(node_home: Path, name: str, actor: User) -> str | None:
    """Return a join token for the node ``name``; None for one that has joined, is still known as such, and reaches
    Valkey as its own user."""
    from runs.actions import cluster_of_this_machine, new_join_token
    from runs.rights import valkey_users

    node = _known_node(node_home)
    if node is not None and valkey_users.is_url_of(node, str(stored(node_home / "node.toml").get("redis_url"))):
        return None
    (node_home / "node.toml").unlink(missing_ok=True)
    _, secret = new_join_token(actor=actor, cluster=cluster_of_this_machine(actor=actor, node=name))
    return secret


def remove_other_nodes(home: Path, names: list[str], actor: User) -> list[str]:
    """Remove the nodes that an `up` of this home started before and that are not among ``names``. Returns the names of
    those that a run still holds."""
    from runs.actions import Refused, remove_node

    held = []
    for folder in sorted((home / "nodes").glob("local-*")):
        is_other = folder.name not in names and folder.name.removeprefix("local-").isdecimal()
        node = _known_node(folder) if is_other else None
        try:
            if node is not None:
                remove_node(actor=actor, node=node)
        except Refused:
            held.append(folder.name)
    return held


def _known_node(node_home: Path) -> Node | None:
    """Return the node that joined from this folder, None where it has not joined or was removed."""
    from runs.models import Node

    known = stored(node_home / "node.toml")
    node = Node.objects.filter(name=node_home.name, pk=known.get("id", ""), removed_at=None).first()
    return node if node is not None and node.key == known.get("key") else None


def stored(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text())
    except (OSError, ValueError):
        return {}


def isolation(home: Path) -> str:
    """Say what the scripts of runs can reach on this machine. Tried in a process of its own, as each node does."""
    found: dict[str, object] = {}
    if os.environ.get("TRAINYARD_ISOLATION", "").lower() not in ("off", "0"):
        command = [sys.executable, "-m", "workers.sandbox.probe", str(home)]
        with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
            answer = subprocess.run(command, cwd=ROOT, capture_output=True, stdin=subprocess.DEVNULL, timeout=20)
            found = json.loads(answer.stdout)
    words = REACH.get(str(found.get("mechanism", "none")), REACH["none"])
    return f"{words} (Sandbox level {found.get('level', 0)}.)"


def are_in_contact(names: list[str]) -> bool:
    from django.utils import timezone

    from runs.models import Node

    now = timezone.now()
    nodes = Node.objects.filter(name__in=names, removed_at=None)
    return sum(node.is_in_contact(now) for node in nodes) >= len(names)


def num_shards() -> int:
    """Return how many ingest processes there are to be: one for each shard that the settings or a run name."""
    from django.conf import settings
    from django.db.models import Max

    from runs.models import Run

    largest: int = Run.objects.aggregate(largest=Max("shard"))["largest"] or 0
    return max(int(settings.INGEST_SHARDS), largest + 1)


def live_runs(nodes: list[str]) -> tuple[list[str], int]:
    """Return the names of the live runs that have ranks on ``nodes``, and how many there are in all."""
    from runs.models import Run
    from runs.values.status import PLACED

    live = Run.objects.filter(status__in=list(PLACED))
    here = live.filter(attempts__ended_at=None, attempts__placements__node__name__in=nodes).distinct()
    return list(here.values_list("name", flat=True)), live.count()


def num_live_attempts() -> int:
    from runs.models import Attempt

    return Attempt.objects.filter(ended_at=None).count()


def sign_in_url(url: str, user: User, after: str = "") -> str:
    """Return a link that signs ``user`` in, once, and leads to ``after``."""
    from urllib.parse import urlencode

    from django.urls import reverse

    from runs.actions import make_sign_in_link

    link = url + reverse("use-link", args=[make_sign_in_link(user=user)])
    return f"{link}?{urlencode({'next': after})}" if after else link
