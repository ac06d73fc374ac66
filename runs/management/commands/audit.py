"""``trainyard manage audit verify`` and ``accept``: check the chain in the database, or take it for the newest after a
restore. No server need run."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from runs.management.commands.person import SERVERS_USER
from runs.rights.audit import chain


class Command(BaseCommand):
    help = "Check the audit's chain of hashes; name the first row that does not fit. Accept an older one."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("verb", choices=["verify", "accept"])

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        found = chain.verify() if verb == "verify" else chain.accept(SERVERS_USER)
        if found.fault is not None:
            raise CommandError(found.fault.sentence)
        self.stdout.write(f"{found.num_rows} rows, {found.first} to {found.last}, are intact. Last hash: {found.head}")
