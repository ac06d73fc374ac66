"""The commands ``dataset``: data that a project trains on by name."""

import argparse
import time

from trainyard.cli.screen import Screen, ago, figure, size
from trainyard.contract.answers import people as data_answers
from trainyard.contract.inspections import ColumnFacts
from trainyard.rest import answers
from trainyard.rest.client import Client, quoted
from trainyard.rest.connection import ApiError, given

SOURCES = ("text", "jsonl", "npz", "csv", "parquet", "images")
POLL_S = 0.5
MAX_SHOWN = 30  # columns and classes on the terminal; --json has all


def add(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    options = {name: getattr(arguments, name) for name in ("target", "text_field", "image_size")}
    asked = {name: getattr(arguments, name) for name in ("name", "source", "location", "project", "cluster")}
    asked["options"] = given(options)
    made = client.call("POST", "datasets", answers.DatasetWithFacts, json=asked)
    print(made["id"], flush=True)
    return 0 if not arguments.wait else _waited(client, made, screen)


def show(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    found = _find(client, arguments)
    if arguments.json:
        screen.json(found)
        return
    facts = found["facts"]
    screen.line(f"{found['name']} ({found['id']})", "bold")
    screen.line(_state(found), "red" if found["state"] == "failed" else "")
    screen.facts({
        "source": f"{found['source']} at {found['location']}",
        "for": f"{found['recipe']} in project {found['project']} on cluster {found['cluster']}",
        **{name: str(value) for name, value in found["options"].items()},
    })  # fmt: skip
    if found["state"] == "ready":
        num = "" if found["num_rows"] is None else f"{found['num_rows']:,}"
        screen.facts({"holds": f"{num} rows, {size(found['size_bytes'])}", "digest": found["digest"]})
    if columns := facts.get("columns"):
        screen.line("")
        screen.table(("column", "type", "missing", "min", "max", "mean"), [_column(one) for one in columns[:MAX_SHOWN]])
    if classes := facts.get("classes"):
        screen.line("")
        screen.table(("class", "rows"), [(one["name"], one["count"]) for one in classes[:MAX_SHOWN]])


def check(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    place = f"datasets/{quoted(_find(client, arguments)['id'])}/check"
    return _waited(client, client.call("POST", place, answers.DatasetWithFacts, json={}), screen)


def delete(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    client.call("DELETE", f"datasets/{quoted(_find(client, arguments)['id'])}", answers.Empty)
    screen.say(f"{arguments.name} is forgotten; its files are where they were.")


def _find(client: Client, arguments: argparse.Namespace) -> answers.DatasetWithFacts:
    """Return the dataset of that name, or id, in the project. Raises ApiError."""
    named = list(client.pages("datasets", data_answers.Dataset, project=arguments.project, name=arguments.name))
    if len(named) > 1:
        projects = ", ".join(one["project"] for one in named)
        raise ApiError(404, f"{arguments.name} is in several projects ({projects}): say --project", [])
    return client.dataset(named[0]["id"] if named else arguments.name)


def _waited(client: Client, found: answers.DatasetWithFacts, screen: Screen) -> int:
    """Print what came of it once a node has looked, and return the exit code."""
    while found["state"] in ("waiting", "checking"):
        time.sleep(POLL_S)
        found = client.dataset(found["id"])
    screen.say(_state(found))
    return 0 if found["state"] == "ready" else 1


def _state(one: data_answers.Dataset) -> str:
    node = one["checked_by"] or "a node"
    return {
        "waiting": f"waits for a node of cluster {one['cluster']}",
        "checking": f"{node} is looking at it",
        "ready": f"ready, {node} looked {ago(one['checked_at'])}",
        "failed": f"failed: {one['problem']} ({node} looked {ago(one['checked_at'])})",
    }[one["state"]]


def _column(one: ColumnFacts) -> tuple[object, ...]:
    numbers = (figure(one.get(key)) if key in one else "" for key in ("min", "max", "mean"))
    return one["name"], one.get("type", ""), one.get("missing", ""), *numbers
