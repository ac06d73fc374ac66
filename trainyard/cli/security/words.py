"""The words of ``trainyard secrets``, ``privacy`` and ``audit``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from trainyard.cli.security import audit, privacy, secrets

Adder = Callable[..., argparse.ArgumentParser]


def add_security(commands: Any, command: Adder) -> None:
    """Add them. ``command`` makes one command of a group."""
    group = commands.add_parser("secrets", help="values that runs need and nobody reads", description="Secrets.")
    _add_secrets(group.add_subparsers(dest="secrets_command", required=True, metavar="COMMAND"), command)
    group = commands.add_parser("privacy", help="your data, and where projects' lie", description="Privacy.")
    _add_privacy(group.add_subparsers(dest="privacy_command", required=True, metavar="COMMAND"), command)
    group = commands.add_parser("audit", help="who did what", description="Who did what.")
    _add_audit(group.add_subparsers(dest="audit_command", required=True, metavar="COMMAND"), command)


def _add_secrets(verbs: Any, command: Adder) -> None:
    listed = command(verbs, "list", secrets.listed, "list names, versions and times")
    put = command(verbs, "set", secrets.put, "set a secret; its value is asked for, or read from the standard input")
    delete = command(verbs, "delete", secrets.delete, "forget a secret with all its versions")
    for one in (put, delete):
        one.add_argument("name", metavar="NAME", help="letters, digits and _")
    for one in (listed, put, delete):
        one.add_argument("--project", help="whose; without it your own")
    _speaks_json(listed)
    command(verbs, "rotate-key", secrets.rotate_key, "wrap all secrets with a new key (administrators)")


def _add_privacy(verbs: Any, command: Adder) -> None:
    export = command(verbs, "export", privacy.export, "bring a ZIP of all that belongs to you")
    export.add_argument("--to", metavar="FILE", help="where it goes (default: trainyard-ID.zip)")
    export.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS", help="give up after so long (300)")
    storage = command(verbs, "storage", privacy.storage, "show where every byte of a project lies")
    _speaks_json(storage)
    retention = command(verbs, "retention", privacy.retention, "show or set for how long a project keeps what")
    retention.add_argument(
        "--keep", type=privacy.kind_and_days, action="append", default=[], metavar="KIND=DAYS",
        help="keep a kind for so many days after the end of a run; KIND= for ever; may be repeated",
    )  # fmt: skip
    retention.add_argument("--yes", action="store_true", help="save it; without it what would go is shown")
    for one in (storage, retention):
        one.add_argument("project", metavar="PROJECT", help="its name or id")


def _add_audit(verbs: Any, command: Adder) -> None:
    listed = command(verbs, "list", audit.listed, "list acts, the newest first")
    listed.add_argument("--limit", type=int, default=50, metavar="N", help="at most so many (default: 50)")
    _speaks_json(listed)
    export = command(verbs, "export", audit.export, "print acts with their hashes, the oldest first")
    export.add_argument("--csv", action="store_true", help="CSV; without it JSON lines")
    for one in (listed, export):
        one.add_argument("--actor", help="only acts of this person")
        one.add_argument("--action", help="only this act, or those that begin so: runs")
        one.add_argument("--object", help="only those with this in their object, such as a run's id")
        one.add_argument("--project", help="only those in this project")
        one.add_argument("--result", choices=["ok", "refused", "failed"], help="only those that ended so")
        one.add_argument("--q", metavar="TEXT", help="only those with this text")
        one.add_argument("--since", metavar="TIME", help="from this time on, in ISO 8601")
        one.add_argument("--until", metavar="TIME", help="before this time")
    _speaks_json(command(verbs, "verify", audit.verify, "check the chain of hashes; exit 1 if a row does not fit"))


def _speaks_json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="JSON as REST answers it")
