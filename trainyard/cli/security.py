"""The commands ``trainyard secrets``, ``privacy``, ``audit`` and ``comply``: their words, and what each does."""

import argparse
import getpass
import os
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

from trainyard.cli.commands import command, group, speaks_json
from trainyard.cli.screen import Screen, ago, size
from trainyard.contract.answers import people
from trainyard.rest.answers import Empty, Page
from trainyard.rest.client import SUBMIT_S, Client, quoted
from trainyard.rest.connection import ApiError


def add_security(commands: Any) -> None:
    _add_secrets(group(commands, "secrets", "values that runs need and nobody reads"))
    _add_privacy(group(commands, "privacy", "your data, and where projects' lie"))
    _add_audit(group(commands, "audit", "who did what"))
    command(commands, "comply", comply, "measure controls of compliance; exit 1 if one is red", speaks_json)


def _add_secrets(verbs: Any) -> None:
    listed = command(verbs, "list", list_secrets, "list names, versions and times", speaks_json)
    put = command(verbs, "set", put_secret, "set a secret; its value is asked for, or read from the standard input")
    delete = command(verbs, "delete", delete_secret, "forget a secret with all its versions")
    for one in (put, delete):
        one.add_argument("name", metavar="NAME", help="letters, digits and _")
    for one in (listed, put, delete):
        one.add_argument("--project", help="whose; without it your own")


def _add_privacy(verbs: Any) -> None:
    export = command(verbs, "export", export_mine, "bring a ZIP of all that belongs to you")
    export.add_argument("--to", metavar="FILE", help="where it goes (default: trainyard-ID.zip)")
    export.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS", help="give up after so long (300)")
    storage = command(verbs, "storage", show_storage, "show where every byte of a project lies", speaks_json)
    retention = command(verbs, "retention", keep_for, "show or set for how long a project keeps what")
    retention.add_argument(
        "--keep", type=kind_and_days, action="append", default=[], metavar="KIND=DAYS",
        help="keep a kind for so many days after the end of a run; KIND= for ever; may be repeated",
    )  # fmt: skip
    retention.add_argument("--yes", action="store_true", help="save it; without it what would go is shown")
    for one in (storage, retention):
        one.add_argument("project", metavar="PROJECT", help="its name or id")


def _add_audit(verbs: Any) -> None:
    listed = command(verbs, "list", list_audit, "list acts, the newest first", speaks_json)
    listed.add_argument("--limit", type=int, default=50, metavar="N", help="at most so many (default: 50)")
    export = command(verbs, "export", export_audit, "print acts with their hashes, the oldest first")
    export.add_argument("--csv", action="store_true", help="CSV; without it JSON lines")
    for one in (listed, export):
        for name, words in FILTERS.items():
            one.add_argument(f"--{name}", help=words, choices=RESULTS if name == "result" else None)
    command(verbs, "verify", verify_audit, "check the chain of hashes; exit 1 if a row does not fit", speaks_json)


# ``trainyard secrets``: values come from the standard input or a prompt, never from the command line.


def list_secrets(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    found = list(client.pages(_secrets_of(arguments), people.Secret))
    screen.listing(found, ("name", "version", "set by", "set", "used"), _secret_row, is_json=arguments.json)


def _secret_row(one: people.Secret) -> tuple[object, ...]:
    used = ago(one["used_at"]) or "never"
    return one["name"], one["version"], one["created_by"] or "", ago(one["changed_at"]), used


def put_secret(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    place, value = f"{_secrets_of(arguments)}/{quoted(arguments.name)}", _value(arguments.name)
    client.call("PUT", place, Empty, json={"value": value})
    screen.say(f"{arguments.name} is set. Runs that begin from now on get it.")


def delete_secret(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    client.call("DELETE", f"{_secrets_of(arguments)}/{quoted(arguments.name)}", Empty)
    screen.say(f"{arguments.name} is deleted.")


def _secrets_of(arguments: argparse.Namespace) -> str:
    return f"projects/{quoted(arguments.project)}/secrets" if arguments.project else "me/secrets"


def _value(name: str) -> str:
    """Return what was typed without being shown, or all of the standard input but for the end of its last line."""
    if sys.stdin.isatty():
        value = getpass.getpass(f"Value of {name}: ")
    else:
        value = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    if not value:
        raise ApiError(400, f"secrets set {name}: there is no value", [])
    return value


# ``trainyard audit``: who did what, the check of the chain, and exports.

MEASURE_S = 600.0  # the whole audit is read
RESULTS = ("ok", "refused", "failed")
FILTERS = {
    "actor": "only acts of this person", "action": "only this act, or those that begin so: runs",
    "object": "only those with this in their object, such as a run's id", "project": "only those in this project",
    "result": "only those that ended so", "q": "only those with this text",
    "since": "from this time on, in ISO 8601", "until": "before this time",
}  # fmt: skip


def list_audit(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    pages = client.pages("audit", people.AuditRow, **_filters(arguments), limit=min(arguments.limit, 200))
    found = list(islice(pages, arguments.limit))
    titles = ("row", "at", "who", "what", "of", "project", "result")
    screen.listing(found, titles, _audit_row, is_json=arguments.json)


def _audit_row(one: people.AuditRow) -> tuple[object, ...]:
    about = one["action"], one["object"], one["project"], one["result"]
    return one["sequence"], ago(one["at"]), one["actor"] or "nobody", *about


def verify_audit(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    """Exit code 1 where a row does not fit."""
    found = client.call("GET", "audit/verify", people.Verdict, timeout=SUBMIT_S)
    if arguments.json:
        screen.json(found)
    elif found["fault"] is not None:
        screen.complain(found["fault"]["sentence"])
    else:
        screen.say(f"{found['rows']} rows, {found['first']} to {found['last']}, are intact.")
        screen.line(found["hash"])
    return 0 if found["intact"] else 1


def export_audit(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    form = "csv" if arguments.csv else "jsonl"
    sys.stdout.writelines(client.texts("audit/export", **_filters(arguments), format=form))


def comply(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    """Exit code 1 where a control is red."""
    found = client.call("GET", "compliance", people.Compliance, timeout=MEASURE_S)
    if arguments.json:
        screen.json(found)
    else:
        rows = []
        for one in found["controls"]:
            words = " ".join((one["sentence"], *one["facts"][:3]))
            rows.append((one["state"], one["title"], ago(one["last_green_at"]) or "never", words))
        screen.table(("state", "control", "last green", "measured"), rows)
    return int(any(one["state"] == "red" for one in found["controls"]))


def _filters(arguments: argparse.Namespace) -> dict[str, str | None]:
    return {name: getattr(arguments, name) for name in FILTERS}


# ``trainyard privacy``: what belongs to oneself, and where a project's data lie and for how long.

ASK_EVERY_S = 0.5
CHUNK_BYTES = 1024 * 1024
FOR_EVER = "for ever"


def export_mine(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    """Have an export made, or take the one of the last hour, and bring it here."""
    try:
        found: people.Export | None = client.call("POST", "me/exports", people.Export, json={})
    except ApiError as error:
        if error.status != 409:
            raise
        found = _newest_export(client)  # one of the last hour
    deadline = time.monotonic() + arguments.timeout
    while found is not None and found["state"] == "waiting" and time.monotonic() < deadline:
        time.sleep(ASK_EVERY_S)
        found = _newest_export(client)
    if found is None or found["state"] != "ready":
        screen.complain(found["problem"] if found and found["problem"] else "The export is not ready yet.")
        return 1
    target = Path(arguments.to or f"trainyard-{found['id']}.zip")
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    headers = {"Accept-Encoding": "identity"}
    with os.fdopen(descriptor, "wb") as file, client.open(f"me/exports/{found['id']}/file", headers) as answer:
        for data in answer.iter_bytes(CHUNK_BYTES):
            file.write(data)
    screen.say(f"{found['rows']} rows, {size(found['size_bytes'])}")
    screen.line(str(target))
    return 0


def _newest_export(client: Client) -> people.Export | None:
    found = client.call("GET", "me/exports", Page[people.Export], params={"limit": 1})
    return found["items"][0] if found["items"] else None


def show_storage(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    found = client.call("GET", f"projects/{quoted(arguments.project)}/storage", people.Storage)
    if arguments.json:
        screen.json(found)
        return
    rows = [
        (one["kind"], one["place"], one["region"] or "not known", size(one["bytes"]), one["number"],
         "outside" if one["is_outside"] else "")
        for one in found["items"]
    ]  # fmt: skip
    screen.table(("kind", "place", "region", "size", "number", ""), rows)
    if found["sentence"]:
        screen.complain(found["sentence"])


def keep_for(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    """Show how long what is kept; with ``--keep`` what would go, and with ``--yes`` save it."""
    days, place = dict(arguments.keep), f"projects/{quoted(arguments.project)}/retention"
    if days and not arguments.yes:
        removals = client.call("POST", f"{place}/preview", people.Removals, json={"days": days})["items"]
        screen.say("This would be removed now. --yes saves it.")
        titles = ("kind", "older than", "runs", "size")
        screen.table(titles, [(one["kind"], f"{one['days']} d", one["runs"], size(one["bytes"])) for one in removals])
        return
    found = client.call("PUT" if days else "GET", place, people.Days, json={"days": days} if days else None)
    rows = [(kind, FOR_EVER if number is None else f"{number} d") for kind, number in found["days"].items()]
    screen.table(("kind", "kept"), rows)


def kind_and_days(text: str) -> tuple[str, int | None]:
    """Read ``logs=30``; ``logs=`` is for ever."""
    kind, sign, number = text.partition("=")
    if not sign:
        raise ValueError(text)
    return kind, int(number) if number else None
