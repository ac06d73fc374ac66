"""`trainyard serve web|control|ingest`: one process of the site in the foreground, for systemd, containers and several
machines. `trainyard migrate`: bring the databases up to date, once before them. `trainyard up` is all of it on one
machine."""

import argparse
import importlib
import os
import runpy
import sys
from concurrent.futures import ThreadPoolExecutor

from dashboard.home import home_path, serves_tls
from dashboard.http import hosts
from dashboard.up import checks, database, programs, valkey
from dashboard.up.checks import CannotStart
from dashboard.up.children import Program

NOT_ENOUGH = (
    "REDIS_URL is not set: web, control and ingest need one Valkey, or Redis, that all of them and the nodes reach."
)

LOADED = {"web": "dashboard.asgi", "control": "runs.tasks", "ingest": "runs.management.commands.ingest"}
NICENESS = 5  # of a process that starts: a third of the processor's time of one that answers callers


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="trainyard serve", description="One process of the site, in the foreground.")
    parser.add_argument("process", choices=("web", "control", "ingest", "migrate"))
    parser.add_argument("--shard", type=int, default=0, help="of ingest: which of INGEST_SHARDS it is, from 0")
    options = parser.parse_args(arguments)
    os.umask(0o077)
    try:
        if options.process == "migrate":
            return migrate()
        with ThreadPoolExecutor(1, initializer=_give_way) as starting:
            program = starting.submit(_prepared, options.process, options.shard).result()
    except (CannotStart, valkey.NoValkey) as error:
        print(error, file=sys.stderr)
        return 1
    # In this process: another one would import all of it again, which takes two seconds of a core.
    sys.argv = program.command[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    return 0


def migrate() -> int:
    """Bring the databases up to date; the first time, make the first person, who `trainyard sign-in-link` lets in."""
    _set_up()
    from dashboard.frontend.storage import collect

    num_applied = database.open_database()
    collect()  # so that the first web of a new version need not
    print(f"{num_applied} migrations were applied. {database.owner()} may sign in: see `trainyard sign-in-link`.")
    return 0


def _set_up() -> None:
    checks.prepare_home(home_path())
    checks.refuse_unfinished_restore(home_path())
    database.set_up_django()


def _give_way() -> None:
    """Let other processes go first while this thread works. On Linux a thread has a niceness of its own, and no process
    without privileges could take back that of all its threads."""
    if sys.platform == "linux":
        os.nice(NICENESS)


def _prepared(process: str, shard: int) -> Program:
    """Look at what the process needs, and import what it serves. Raises CannotStart and NoValkey."""
    _set_up()
    if not os.environ.get("REDIS_URL"):
        raise CannotStart(NOT_ENOUGH)
    valkey.refuse_old_server(os.environ["REDIS_URL"])
    if behind := database.open_database(only_look=True):
        raise CannotStart(f"The database lacks {behind} migrations of this version: run `trainyard migrate` first.")
    program = _program(process, shard)
    os.environ.update({name: value for name, value in program.environment.items() if value is not None})
    from django.db import connections

    connections.close_all()  # what is imported next has a pool of them
    importlib.import_module(LOADED[process])
    return program


def _program(process: str, shard: int) -> Program:
    if process == "control":
        return programs.control()
    if process == "ingest":
        return programs.ingest(_known_shard(shard))
    from dashboard.frontend.storage import collect

    collect()
    home, host = home_path(), os.environ.get("HOST") or "127.0.0.1"
    listener = checks.listen(host, checks.number("PORT", 8000, 65535), is_shared=True)
    listeners = [listener]
    if os.environ.get("PROXY_PORT"):
        apps_port = checks.number("PROXY_PORT", 0, 65535)
        listeners.append(checks.listen(host, apps_port, variable="PROXY_PORT", is_shared=True))
    print(f"web serves {hosts.url(host, listener.getsockname()[1], is_tls=serves_tls(home))}", flush=True)
    program = programs.web(*listeners, is_tls=serves_tls(home))
    for one in listeners:
        os.set_inheritable(one.detach(), True)
    return program


def _known_shard(shard: int) -> int:
    most = database.num_shards()
    if not 0 <= shard < most:
        raise CannotStart(f"--shard is {shard}; INGEST_SHARDS makes it 0 to {most - 1}.")
    return shard


if __name__ == "__main__":
    sys.exit(main())
