"""``trainyard manage data_map``: where there are data of people, as docs/data_map.md has it."""

from typing import Any

from django.core.management.base import BaseCommand

from runs.privacy.data_map import documented


class Command(BaseCommand):
    help = "Print where there are data of people: docs/data_map.md."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(documented(), ending="")
