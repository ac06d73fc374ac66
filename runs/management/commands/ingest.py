"""``trainyard manage ingest --shard N``: the long loop of runs.ingest.consumer."""

import atexit
import signal
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from runs.ingest.consumer import Consumer
from trainyard import lifeline


class Command(BaseCommand):
    help = "Store what the nodes send: stream to database to browsers. One process per shard."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--shard", type=int, default=0)

    def handle(self, *args: Any, shard: int, **options: Any) -> None:
        if shard and connections[settings.METRICS_DATABASE].vendor == "sqlite":
            raise CommandError("A SQLite file has one writer: the only shard is 0.")
        consumer = Consumer(shard)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: consumer.stopping.set())
        lifeline.watch()
        self.stdout.write(f"ingest of shard {shard} is ready")
        try:
            while not consumer.stopping.is_set():
                consumer.step()
        finally:
            consumer.close()
        atexit.register(lifeline.leave)
