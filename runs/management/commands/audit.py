"""``trainyard manage audit verify``: check the chain in the database, where no server need run."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from runs.audit import chain


class Command(BaseCommand):
    help = "Check the audit's chain of hashes in the database; name the first row that does not fit."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("verb", choices=["verify"])

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        found = chain.verify()
        if found.fault is not None:
            raise CommandError(found.fault.sentence)
        self.stdout.write(f"{found.num_rows} rows, {found.first} to {found.last}, are intact. Last hash: {found.head}")
