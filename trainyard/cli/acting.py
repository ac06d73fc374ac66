"""Commands that change something on the server in one request."""

from __future__ import annotations

import argparse

from trainyard.cli.screen import Screen
from trainyard.rest.client import ApiError, Client

RUN_VERBS = {
    "stop": "stop a run: its ranks save and end; asked again, they are killed",
    "pause": "save a run's state and free its slots until it is resumed",
    "resume": "queue a paused run at its old place in line; it goes on from its checkpoint",
    "archive": "hide an ended run from the lists",
}
NODE_VERBS = {
    "drain": "give a node no new runs; elastic ones leave it",
    "enable": "give a drained node new runs again",
}


def act_on_run(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    run = client.act(arguments.id, arguments.command)
    screen.say(f"{run['name']} is {run['status']}. {run['reason']['sentence']}".strip())
    return 0


def resize(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    run = client.resize(arguments.id, arguments.nodes)
    screen.say(f"{run['name']} is {run['status']}. {run['reason']['sentence']}".strip())
    return 0


def trace(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    traced = client.trace(arguments.id, arguments.steps, arguments.rank or "all")
    first, last, ranks = traced["first_step"], traced["last_step"], traced["ranks"]
    steps = f"Step {first} is" if first == last else f"Steps {first} to {last} are"
    screen.say(f"{steps} traced on {'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}.")
    for rank in ranks:
        screen.line(f"traces/step-{first}.rank-{rank}.json.gz")
    return 0


def delete(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    client.delete(arguments.id)
    screen.say(f"{arguments.id} is deleted.")
    return 0


def act_on_node(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    named = [node["id"] for node in client.nodes() if arguments.node in (node["name"], node["id"])]
    if not named:
        raise ApiError(404, f"there is no node {arguments.node}", [])
    client.act_on_node(named[0], arguments.command)
    screen.say(f"{arguments.node} {'takes no new runs' if arguments.command == 'drain' else 'takes runs again'}.")
    return 0


def create_token(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    made = client.create_token(arguments.name, arguments.expires)
    screen.say("This is shown once; whoever has it acts as you.")
    screen.line(made["token"])
    return 0


def exclude_node(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    run = client.exclude_node(arguments.id, arguments.node)
    screen.say(f"{run['name']} goes on without {arguments.node}. {run['reason']['sentence']}".strip())
    return 0


def rewind(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    first, last = arguments.skip
    run = client.rewind(arguments.id, to=arguments.to, first=first, last=last)
    screen.say(f"{run['name']} is {run['status']}. {run['reason']['sentence']}".strip())
    return 0
