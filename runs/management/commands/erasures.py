"""``trainyard manage erasures list`` and ``apply``: tombstones, for copies of the database elsewhere."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from runs.models import ErasedPerson
from runs.privacy import erasure


class Command(BaseCommand):
    help = "Print the list of erased people, or erase again whom a list names and who is here."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("verb", choices=["list", "apply"])
        parser.add_argument("file", type=Path, nargs="?", help="of apply: the list; without it this server's own")

    def handle(self, *args: Any, verb: str, file: Path | None, **options: Any) -> None:
        if verb == "list":
            for row in ErasedPerson.objects.all():
                self.stdout.write(erasure.line_of(row))
            return
        try:
            num = erasure.erase_again(erasure.read_list(file)) if file else 0
            num += erasure.catch_up()
        except (erasure.BadList, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{num} erased again.")
