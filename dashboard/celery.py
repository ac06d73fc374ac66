"""Control: the Celery app that schedules and reconciles. Its messages are hints; the database is the truth.

`celery -A dashboard.celery worker -Q control` is all of it: the clock that sends a tick every second is a thread of
the worker, since a process of its own would outlive a worker that is killed. Several workers may run: ticks are
idempotent.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from celery import Celery, bootsteps
from celery.beat import EmbeddedService
from celery.exceptions import SecurityWarning

from trainyard import lifeline

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
# It warns of root because pickled messages could do anything; ours are JSON, and no other is accepted.
warnings.filterwarnings("ignore", category=SecurityWarning)

app = Celery("trainyard")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


class Clock(bootsteps.StartStopStep):
    """Celery's beat as a thread of the worker."""

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self.service: Any = None

    def start(self, parent: Any) -> None:
        # The plain scheduler keeps its times in memory: a tick needs no file of past ones.
        self.service = EmbeddedService(app, thread=True, scheduler_cls="celery.beat:Scheduler")
        self.service.start()

    def stop(self, parent: Any) -> None:
        if self.service is not None:
            self.service.service.stop()  # without waiting: it sleeps until its next tick, and one more is harmless


class Listener(bootsteps.StartStopStep):
    """Hears supervisors whose report says something new, as another thread of the worker."""

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self.hints: Any = None

    def start(self, parent: Any) -> None:
        from runs.reconcile.hints import Hints  # Django is ready by now

        self.hints = Hints()
        self.hints.start()

    def stop(self, parent: Any) -> None:
        if self.hints is not None:
            self.hints.stop()


class Lifeline(bootsteps.Step):
    """Stop when the parent under `up` is gone."""

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        lifeline.watch()


app.steps["worker"] |= {Clock, Listener, Lifeline}
