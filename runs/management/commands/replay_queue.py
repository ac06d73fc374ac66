"""``trainyard manage replay_queue FILE``: play a round of a queue that was saved. No server need run."""

from pathlib import Path
from typing import Any

import msgspec
from django.core.management.base import BaseCommand, CommandError, CommandParser

from runs.life.reconcile.saved import SavedQueue
from trainyard.contract.base import prepared
from trainyard.formats.words import counted


class Command(BaseCommand):
    help = "Play a round of a saved queue (GET /api/v1/clusters/ID/queue/saved), and print each decision."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)

    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        try:
            saved = msgspec.json.decode(file.read_bytes(), type=prepared(SavedQueue))
            decided = [(one.run, saved.sentence(one)) for one in saved.decided()]
        except (msgspec.MsgspecError, OSError, ArithmeticError, LookupError, ValueError) as error:
            raise CommandError(f"{file} is no saved queue: {error}") from error
        self.stdout.write(f"{counted(len(decided), 'run')} on cluster {saved.round.cluster}, as they were {saved.at}:")
        for run, sentence in decided:
            self.stdout.write(f"{run}  {sentence}")
