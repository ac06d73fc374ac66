"""`python -m dashboard.up [--demo] [--port PORT]`: start everything here, serve until Ctrl-C, stop everything."""

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashboard.home import EXAMPLES, home_path, serves_tls
from dashboard.http import hosts
from dashboard.up import checks, children, database
from dashboard.up.output import Console
from dashboard.up.processes import Listeners, Processes
from trainyard.contract.base import JsonObject

if TYPE_CHECKING:
    from runs.models import Run

EXAMPLE = EXAMPLES / "hello-gpt.yaml"
BEGAN_AT = time.monotonic()
SAME_SIGNAL_S = 1.0  # `timeout` and some terminals send it twice
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dashboard.up", description="Serve Trainyard on this machine.")
    parser.add_argument("--demo", action="store_true", help="launch the hello-gpt run; with ONCE=1 wait for its end")
    parser.add_argument("--port", metavar="PORT", help="the port to serve on; default: the variable PORT, or 8000")
    options = parser.parse_args(arguments)
    if options.port is not None:
        os.environ["PORT"] = options.port
    try:
        processes = prepare()
    except checks.CannotStart as error:
        print(error, file=sys.stderr)
        return 1
    code = asyncio.run(serve(processes, is_demo=options.demo, is_once=bool(os.environ.get("ONCE"))))
    processes.console.close()
    return code


def prepare() -> Processes:
    """Check what can be checked before anything starts."""
    checks.read_secrets()
    home, host = home_path(), os.environ.get("HOST") or "127.0.0.1"
    port, num_nodes = checks.number("PORT", 8000, 65535), checks.number("NODES", 2, 64)
    os.umask(0o077)
    checks.prepare_home(home)
    checks.refuse_unfinished_restore(home)
    lock = checks.lock_home(home)
    listeners = _listen(home, host, port)
    port = listeners.web.getsockname()[1]
    url = os.environ.get("PUBLIC_URL", "").rstrip("/") or hosts.url(host, port, is_tls=serves_tls(home))
    checks.describe_owner(lock, url)
    # The children read the same names; whatever was relative, or chosen for us, is settled here.
    os.environ.update({"TRAINYARD_HOME": str(home), "HOST": host, "PORT": str(port)})
    children.adopt()
    console = Console(is_coloured=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    return Processes(home, listeners, url, num_nodes, console)


def _listen(home: Path, host: str, port: int) -> Listeners:
    web = checks.listen(host, port)
    apps = _listen_for_apps(home, host, web.getsockname()[1], is_any=port == 0)
    if not serves_tls(home) or os.environ.get("REDIS_URL"):
        return Listeners(web, apps=apps)
    tls_port = checks.number("VALKEY_TLS_PORT", hosts.VALKEY_TLS_PORT, 65535)
    valkey = checks.listen(host, tls_port, variable="VALKEY_TLS_PORT")
    os.environ["VALKEY_TLS_PORT"] = str(valkey.getsockname()[1])
    return Listeners(web, valkey, apps)


def _listen_for_apps(home: Path, host: str, web_port: int, *, is_any: bool) -> socket.socket | None:
    """Listen for browsers that open apps of runs: at PROXY_PORT, else at the next port, else at any. None where the
    settings lead nobody there."""
    public_url = os.environ.get("PUBLIC_URL", "") or hosts.url(host, web_port, is_tls=serves_tls(home))
    try:
        if not hosts.proxy_origin(os.environ.get("TRAINYARD_PROXY_ORIGIN", ""), public_url, "1"):
            return None
    except ValueError as error:
        raise checks.CannotStart(str(error)) from error
    if os.environ.get("PROXY_PORT"):
        apps = checks.listen(host, checks.number("PROXY_PORT", 0, 65535), variable="PROXY_PORT")
    else:
        try:
            apps = checks.listen(host, 0 if is_any else min(web_port + 1, 65535))
        except checks.CannotStart:
            apps = checks.listen(host, 0)
    os.environ["PROXY_PORT"] = str(apps.getsockname()[1])
    return apps


async def serve(processes: Processes, *, is_demo: bool, is_once: bool) -> int:
    """Run until a signal, or with ``is_once`` until the demo's run has ended. A second signal kills everything."""
    signalled = watch_signals(processes)
    work = asyncio.create_task(start_and_stay(processes, is_demo=is_demo, is_once=is_once))
    reaping = asyncio.create_task(reap(processes))
    stopping = asyncio.create_task(signalled.wait())
    renewing = asyncio.create_task(processes.renew_client())
    await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
    code = 0 if not is_once else 1
    if work.done():
        code = result_of(work, processes)
    else:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    for task in (reaping, stopping, renewing):
        task.cancel()
    await say_goodbye(processes)
    await processes.stop()
    processes.listeners.close()
    return code


async def start_and_stay(processes: Processes, *, is_demo: bool, is_once: bool) -> int:
    processes.console.say(f"Starting Trainyard in {processes.home}; its logs are in {processes.home / 'logs'}")
    reach = asyncio.create_task(asyncio.to_thread(database.isolation, processes.home)) if processes.names else None
    await processes.start()
    if reach is not None:
        processes.console.say(await reach)
    started_s = time.monotonic() - BEGAN_AT
    processes.console.say(f"Ready in {started_s:.1f} s at {processes.url}")
    if not is_demo:
        link = await processes.call(database.sign_in_url, processes.url, processes.owner)
        processes.console.say(f"Sign in (once, within a day): {link}")
    await processes.wait_for_nodes()
    processes.console.say(f"Nodes in contact: {', '.join(processes.names) or 'none'}")
    if is_demo:
        run_id = await launch_demo(processes, started_s)
        if is_once:
            return await wait_for_demo(processes, run_id)
    processes.console.say("Ctrl-C stops everything.")
    await asyncio.Event().wait()
    return 0


def result_of(work: asyncio.Task[int], processes: Processes) -> int:
    error = work.exception()
    if error is None:
        return work.result()
    if isinstance(error, checks.CannotStart):
        processes.console.say(str(error))
    else:  # a mistake of ours: show all of it, and still stop gracefully
        processes.console.say("".join(traceback.format_exception(error)))
    return 1


def watch_signals(processes: Processes) -> asyncio.Event:
    """Return the event of the first signal. A second one, from a person who has waited, ends everything at once."""
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    first_at = 0.0

    def on_signal() -> None:
        nonlocal first_at
        if not stopping.is_set():
            first_at = time.monotonic()
            stopping.set()
        elif time.monotonic() - first_at > SAME_SIGNAL_S:
            processes.kill()
            os._exit(130)

    for number_ in STOP_SIGNALS:
        loop.add_signal_handler(number_, on_signal)
    return stopping


async def reap(processes: Processes) -> None:
    while True:
        await asyncio.sleep(1.0)
        processes.reap()


async def say_goodbye(processes: Processes) -> None:
    names: list[str] = []
    num_live = 0
    started = [name for name in processes.names if name in processes.children]
    if processes.owner is not None:
        with contextlib.suppress(Exception):  # a database that is gone now keeps nobody from stopping
            names, num_live = await asyncio.wait_for(processes.call(database.live_runs, started), 0.5)
    live = "no live run is ended by this" if num_live else "no run is live"
    if names:
        live = f"this ends {len(names)} live run{'s'[: len(names) != 1]} ({', '.join(names[:5])})"
    processes.console.say(f"Stopping: {live}.")


async def launch_demo(processes: Processes, started_s: float) -> str:
    """Submit the example of `make demo`, print where to watch it, and return the run's id."""
    run_id = await processes.call(_submit, processes.owner, len(processes.names))
    link = await processes.call(database.sign_in_url, processes.url, processes.owner, f"/runs/{run_id}/")
    processes.console.say(f"""
  Set-up took   {os.environ.get("TRAINYARD_SETUP_SECONDS", "0.0")} s
  Start took    {started_s:.1f} s
  Run           {run_id} (hello-gpt) on {" and ".join(processes.names)}
  Watch it live {link}
""")
    return run_id


async def wait_for_demo(processes: Processes, run_id: str) -> int:
    """Print each new status, then the summary. Returns 0 only for a run that succeeded."""
    from runs.models import Run
    from runs.values.status import Status

    seen = ""
    while True:
        run = await processes.call(Run.objects.get, pk=run_id)
        if run.reason_sentence != seen:
            seen = run.reason_sentence
            processes.console.say(f"  {run.status}: {seen}")
        if run.is_final:
            break
        await asyncio.sleep(0.5)
    processes.console.say(await processes.call(_summary, run))
    return 0 if run.status == Status.SUCCEEDED else 1


def document_for(num_nodes: int) -> JsonObject:
    """Return the example's spec, on no more nodes than there are."""
    import yaml

    document: JsonObject = yaml.safe_load(EXAMPLE.read_text())
    document["resources"]["nodes"] = min(num_nodes, document["resources"]["nodes"])
    return document


def _submit(owner: Any, num_nodes: int) -> str:
    from runs.actions import Refused, submit_run
    from trainyard.spec import SpecError

    try:
        return submit_run(actor=owner, document=document_for(num_nodes)).pk
    except (Refused, SpecError) as error:
        raise checks.CannotStart(f"The example was refused: {error}") from error


def _summary(run: "Run") -> str:
    from runs.models import Placement
    from runs.records.points.read import curves

    nodes = Placement.objects.filter(attempt__run=run).values_list("node__name", flat=True).distinct()
    lines = ["", f"  Run           {run.pk} ({run.name})", f"  Status        {run.status}"]
    lines.append(f"  Nodes         {' and '.join(sorted(nodes))}")
    if run.started_at and run.ended_at:
        lines.append(f"  Trained for   {(run.ended_at - run.started_at).total_seconds():.1f} s")
    for curve in curves({run.pk: (None, None)}, ["val/loss"])[1]:
        values = curve.columns["value" if curve.kind == "raw" else "last"]
        if values.size:
            lines.append(f"  val/loss {float(values[0]):.4f} -> {float(values[-1]):.4f}")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a thread that still waits for a database is not waited for
