"""The command ``preflight``: have nodes checked, wait for what they find, and print it."""

from __future__ import annotations

import argparse
import time

from trainyard.cli.screen import LAMP_STYLES, Screen
from trainyard.rest import answers
from trainyard.rest.client import ApiError, Client

POLL_S = 0.5
LIMIT_S = 120.0
COLOURS = {"ok": "green", "warn": "amber", "fail": "red"}


def preflight(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    """Exit code 1 if a check fails."""
    asked = client.check_run(arguments.id) if arguments.id else client.check_cluster(arguments.cluster)
    found = _wait_for(client, asked)
    if arguments.json:
        screen.json(found)
    else:
        titles = ("node", "check", "state", "found")
        order = ["fail", "warn", "ok"]
        checks = sorted(found["checks"], key=lambda one: (order.index(one["state"]), one["node"], one["name"]))
        screen.table(titles, [(one["node"] or "all", one["name"], one["state"], one["sentence"]) for one in checks])
        style = LAMP_STYLES.get(COLOURS.get(found["state"], ""), "")
        screen.say(f"{_nodes(found)} of cluster {found['cluster']}: {found['state']}.", style)
    return 1 if found["state"] == "fail" else 0


def _wait_for(client: Client, asked: answers.Preflight) -> answers.Preflight:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        for one in client.preflights(asked["cluster"]):
            if one["id"] == asked["id"]:
                if one["state"] != "running":
                    return one
                break
        time.sleep(POLL_S)
    raise ApiError(504, f"the checks of cluster {asked['cluster']} are not there after {LIMIT_S:g} s", [])


def _nodes(found: answers.Preflight) -> str:
    number = len(found["nodes"])
    return f"{number} node{'s'[: number != 1]}"
