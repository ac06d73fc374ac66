"""Commands that have the server do something."""

import argparse
import sys
import time

from trainyard.cli.screen import LAMP_STYLES, Screen
from trainyard.contract.answers import machines as machine_answers
from trainyard.contract.answers import runs as run_answers
from trainyard.formats.words import counted
from trainyard.rest import answers
from trainyard.rest.client import Client, quoted
from trainyard.rest.connection import ApiError
from trainyard.spec import Problem, SpecError

POLL_S = 0.5  # while nodes are checked
LIMIT_S = 120.0
COLOURS = {"ok": "green", "warn": "amber", "fail": "red"}


def _said(run: run_answers.Run, screen: Screen) -> None:
    screen.say(f"{run['name']} is {run['status']}. {run['reason']['sentence']}".strip())


def tag(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    tags, place = client.run_document(arguments.id)["tags"], f"runs/{quoted(arguments.id)}"
    for change in arguments.changes:
        sign, name = change[:1], change[1:]
        if sign not in ("+", "-") or name.strip("-") == "":
            raise SpecError([Problem("", f"tag takes +NAME or -NAME, not {change!r}")])
        tags = [one for one in tags if one != name] + [name] * (sign == "+")
    if arguments.changes:
        tags = client.call("PATCH", place, run_answers.RunDocument, json={"tags": tags})["tags"]
    for one in tags:
        screen.line(one)


def notes(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    if arguments.text is None:
        for line in client.run_document(arguments.id)["notes"].splitlines():
            screen.line(line)
        return
    written = {"notes": sys.stdin.read() if arguments.text == "-" else arguments.text}
    client.call("PATCH", f"runs/{quoted(arguments.id)}", answers.Empty, json=written)
    screen.say("The notes are kept." if written["notes"] else "The notes are gone.")


def resize(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    _said(client.act(arguments.id, "resize", nodes=arguments.nodes), screen)


def trace(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    asked = {"steps": arguments.steps, "ranks": arguments.rank or "all"}
    traced = client.call("POST", f"runs/{quoted(arguments.id)}/trace", run_answers.Traced, json=asked)
    first, last, ranks = traced["first_step"], traced["last_step"], traced["ranks"]
    steps = f"Step {first} is" if first == last else f"Steps {first} to {last} are"
    screen.say(f"{steps} traced on {'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}.")
    for rank in ranks:
        screen.line(f"traces/step-{first}.rank-{rank}.json.gz")


def create_token(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    made = client.create_token(arguments.name, arguments.expires)
    ends = f" It ends at {made['expires_at']}." if made.get("expires_at") else ""
    screen.say(f"This is shown once; whoever has it acts as you.{ends}")
    screen.line(made["token"])


def rewind(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    first, last = arguments.skip
    _said(client.act(arguments.id, "rewind", to=arguments.to, first=first, last=last), screen)


def preflight(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    """Have nodes checked, wait for what they find, and print it. Exit code 1 if a check fails."""
    whose = f"runs/{quoted(arguments.id)}" if arguments.id else f"clusters/{quoted(arguments.cluster)}"
    found = _wait_for(client, client.call("POST", f"{whose}/preflight", machine_answers.Preflight, json={}))
    if arguments.json:
        screen.json(found)
    else:
        titles = ("node", "check", "state", "found")
        order = ["fail", "warn", "ok"]
        checks = sorted(found["checks"], key=lambda one: (order.index(one["state"]), one["node"], one["name"]))
        screen.table(titles, [(one["node"] or "all", one["name"], one["state"], one["sentence"]) for one in checks])
        style = LAMP_STYLES.get(COLOURS.get(found["state"], ""), "")
        screen.say(f"{counted(len(found['nodes']), 'node')} of cluster {found['cluster']}: {found['state']}.", style)
    return 1 if found["state"] == "fail" else 0


def _wait_for(client: Client, asked: machine_answers.Preflight) -> machine_answers.Preflight:
    deadline, place = time.monotonic() + LIMIT_S, f"clusters/{quoted(asked['cluster'])}/preflights"
    while time.monotonic() < deadline:
        asked_for = client.pages(place, machine_answers.Preflight)  # the newest first
        found = next((one for one in asked_for if one["id"] == asked["id"]), asked)
        if found["state"] != "running":
            return found
        time.sleep(POLL_S)
    raise ApiError(504, f"the checks of cluster {asked['cluster']} are not there after {LIMIT_S:g} s", [])
