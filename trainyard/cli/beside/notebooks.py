"""``trainyard notebook``: launch a notebook, and open it in a browser."""

import argparse
import time
import webbrowser
from pathlib import Path

from trainyard.cli.launching import overrides_of, send_code
from trainyard.cli.screen import Screen
from trainyard.contract.base import JsonObject
from trainyard.contract.statuses import FINAL
from trainyard.rest.client import Client
from trainyard.rest.connection import ApiError
from trainyard.spec import ScriptSpec, merge, parse_spec

LOOK_EVERY_S = 1.0
CONFLICT = 409  # it does not run yet


def notebook(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    """Open the notebook of a run, of a new one where none is named."""
    run = arguments.id or _launched(client, arguments, screen)
    if not arguments.id:
        print(run, flush=True)
    deadline = time.monotonic() + arguments.timeout
    while True:
        try:
            opened = client.open_app(run)
            break
        except ApiError as error:
            if error.status != CONFLICT or client.run(run)["status"] in FINAL or time.monotonic() > deadline:
                raise
        time.sleep(LOOK_EVERY_S)
    screen.say(f"Open within {opened['expires_in_s']} s, once: {opened['url']}")
    if arguments.browser:
        webbrowser.open(opened["url"])
    return 0


def _launched(client: Client, arguments: argparse.Namespace, screen: Screen) -> str:
    document: JsonObject = {
        "name": arguments.name,
        "project": arguments.project,
        "cluster": arguments.cluster,
        "task": {"notebook": True, "code": arguments.code},
    }
    document = merge(document, overrides_of(arguments.overrides))
    spec = parse_spec(document)
    if isinstance(spec, ScriptSpec) and isinstance(spec.task.code, str):
        document = merge(document, {"task.code": send_code(client, spec, Path.cwd(), screen)})
    return client.submit(document)["id"]
