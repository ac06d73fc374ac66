"""Commands that have the server do something."""

import argparse
import time

from trainyard.cli.screen import LAMP_STYLES, Screen
from trainyard.contract.answers import machines as machine_answers
from trainyard.contract.answers import runs as run_answers
from trainyard.formats.words import counted
from trainyard.rest import answers
from trainyard.rest.client import Client, quoted
from trainyard.rest.connection import ApiError

RUN_VERBS = {
    "stop": "stop a run: its ranks save and end; asked again, they are killed",
    "pause": "save a run's state and free its slots until it is resumed",
    "resume": "queue a paused run at its old place in line; it goes on from its checkpoint",
    "archive": "hide an ended run from the lists",
}
POLL_S = 0.5  # while nodes are checked
LIMIT_S = 120.0
COLOURS = {"ok": "green", "warn": "amber", "fail": "red"}
NODE_VERBS = {"drain": "give a node no new runs; elastic ones leave it", "enable": "give a drained node new runs again"}


def act_on_run(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    _said(client.act(arguments.id, arguments.command), screen)


def _said(run: run_answers.Run, screen: Screen) -> None:
    screen.say(f"{run['name']} is {run['status']}. {run['reason']['sentence']}".strip())


def resize(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    _said(client.act(arguments.id, "resize", nodes=arguments.nodes), screen)


def move(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    run = client.act(arguments.id, "move", project=arguments.project)
    screen.say(f"{run['name']} is in project {run['project']}.")


def trace(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    asked = {"steps": arguments.steps, "ranks": arguments.rank or "all"}
    traced = client.call("POST", f"runs/{quoted(arguments.id)}/trace", run_answers.Traced, json=asked)
    first, last, ranks = traced["first_step"], traced["last_step"], traced["ranks"]
    steps = f"Step {first} is" if first == last else f"Steps {first} to {last} are"
    screen.say(f"{steps} traced on {'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}.")
    for rank in ranks:
        screen.line(f"traces/step-{first}.rank-{rank}.json.gz")


def delete(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    client.call("DELETE", f"runs/{quoted(arguments.id)}", answers.Empty)
    screen.say(f"{arguments.id} is deleted.")


def act_on_node(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    named = [node["id"] for node in client.nodes() if arguments.node in (node["name"], node["id"])]
    if not named:
        raise ApiError(404, f"there is no node {arguments.node}", [])
    client.call("POST", f"nodes/{quoted(named[0])}/{arguments.command}", machine_answers.Node, json={})
    screen.say(f"{arguments.node} {'takes no new runs' if arguments.command == 'drain' else 'takes runs again'}.")


def create_token(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    made = client.create_token(arguments.name, arguments.expires)
    ends = f" It ends at {made['expires_at']}." if made.get("expires_at") else ""
    screen.say(f"This is shown once; whoever has it acts as you.{ends}")
    screen.line(made["token"])


def exclude_node(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    run = client.act(arguments.id, "exclude-node", node=arguments.node)
    screen.say(f"{run['name']} goes on without {arguments.node}. {run['reason']['sentence']}".strip())


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
