"""`python -m dashboard.up [--demo]`: start everything on this machine, serve until Ctrl-C, stop everything."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import time
import traceback

from dashboard.home import home_path
from dashboard.http import hosts
from dashboard.up import database as house
from dashboard.up import demo, orphans
from dashboard.up.checks import CannotStart, describe_owner, listen, lock_home, number, prepare_home
from dashboard.up.output import Console
from dashboard.up.processes import Yard

BEGAN_AT = time.monotonic()
SAME_WISH_S = 1.0  # `timeout` and some terminals say it twice
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dashboard.up", description="Serve Trainyard on this machine.")
    parser.add_argument("--demo", action="store_true", help="launch the hello-gpt run; with ONCE=1 wait for its end")
    options = parser.parse_args(arguments)
    try:
        yard = prepare()
    except CannotStart as error:
        print(error, file=sys.stderr)
        return 1
    code = asyncio.run(serve(yard, is_demo=options.demo, is_once=bool(os.environ.get("ONCE"))))
    yard.console.close()
    return code


def prepare() -> Yard:
    """Check what can be checked before anything starts."""
    home, host = home_path(), os.environ.get("HOST") or "127.0.0.1"
    port, num_nodes = number("PORT", 8000, 65535), number("NODES", 2, 64)
    os.umask(0o077)
    prepare_home(home)
    lock = lock_home(home)
    listener = listen(host, port)
    port = listener.getsockname()[1]
    url = os.environ.get("PUBLIC_URL", "").rstrip("/") or hosts.url(host, port)
    describe_owner(lock, url)
    # The children read the same names; whatever was relative, or chosen for us, is settled here.
    os.environ.update({"TRAINYARD_HOME": str(home), "HOST": host, "PORT": str(port)})
    orphans.adopt()
    return Yard(
        home, listener, url, num_nodes, Console(is_coloured=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    )


async def serve(yard: Yard, *, is_demo: bool, is_once: bool) -> int:
    """Run until a signal, or with ``is_once`` until the demo's run has ended. A second signal kills everything."""
    told = watch_signals(yard)
    work = asyncio.create_task(start_and_stay(yard, is_demo=is_demo, is_once=is_once))
    reaping = asyncio.create_task(reap(yard))
    stopping = asyncio.create_task(told.wait())
    renewing = asyncio.create_task(yard.renew_client())
    await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
    code = 0 if not is_once else 1
    if work.done():
        code = result_of(work, yard)
    else:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    for task in (reaping, stopping, renewing):
        task.cancel()
    await say_goodbye(yard)
    await yard.stop()
    yard.listener.close()
    return code


async def start_and_stay(yard: Yard, *, is_demo: bool, is_once: bool) -> int:
    yard.console.say(f"Starting Trainyard in {yard.home}")
    reach = asyncio.create_task(asyncio.to_thread(house.isolation, yard.home)) if yard.names else None
    await yard.start()
    if reach is not None:
        yard.console.say(await reach)
    started_s = time.monotonic() - BEGAN_AT
    yard.console.say(f"Ready in {started_s:.1f} s at {yard.url}")
    if not is_demo:
        link = await yard.ask(house.sign_in_url, yard.url, yard.owner)
        yard.console.say(f"Sign in (once, within a day): {link}")
    await yard.wait_for_nodes()
    yard.console.say(f"Nodes in contact: {', '.join(yard.names) or 'none'}")
    if is_demo:
        run_id = await demo.launch(yard, started_s)
        if is_once:
            return await demo.wait(yard, run_id)
    yard.console.say("Ctrl-C stops everything.")
    await asyncio.Event().wait()
    return 0


def result_of(work: asyncio.Task[int], yard: Yard) -> int:
    error = work.exception()
    if error is None:
        return work.result()
    if isinstance(error, CannotStart):
        yard.console.say(str(error))
    else:  # a mistake of ours: show all of it, and still stop in order
        yard.console.say("".join(traceback.format_exception(error)))
    return 1


def watch_signals(yard: Yard) -> asyncio.Event:
    """Return the event of the first signal. A second one, from a person who has waited, ends everything at once."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    told_at = 0.0

    def tell() -> None:
        nonlocal told_at
        if not told.is_set():
            told_at = time.monotonic()
            told.set()
        elif time.monotonic() - told_at > SAME_WISH_S:
            yard.kill()
            os._exit(130)

    for number_ in STOP_SIGNALS:
        loop.add_signal_handler(number_, tell)
    return told


async def reap(yard: Yard) -> None:
    while True:
        await asyncio.sleep(1.0)
        yard.reap()


async def say_goodbye(yard: Yard) -> None:
    names: list[str] = []
    if yard.owner is not None:
        with contextlib.suppress(Exception):  # a database that is gone now keeps nobody from stopping
            names = await asyncio.wait_for(yard.ask(house.live_runs), 0.5)
    live = (
        f"this ends {len(names)} live run{'s'[: len(names) != 1]} ({', '.join(names[:5])})"
        if names
        else "no run is live"
    )
    yard.console.say(f"Stopping: {live}.")


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a thread that still waits for a database is not waited for
