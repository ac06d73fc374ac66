"""Control: the Celery app that schedules and reconciles. Its messages are hints; the database is the truth.

`celery -A dashboard.celery worker -Q control` is all of it: the clock that ticks every second is a thread of the
worker and sends nothing, so that a lost message, or a worker that receives none, costs a second at most. Several
workers may run: one of them ticks at a time.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from celery import Celery, bootsteps, signals
from celery.exceptions import SecurityWarning

from trainyard import lifeline
from workers.transport.broker import MessageGate

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
# It warns of root because pickled messages could do anything; ours are JSON, and no other is accepted.
warnings.filterwarnings("ignore", category=SecurityWarning)

app = Celery("trainyard")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@signals.celeryd_init.connect
def guard(conf: Any, **_: Any) -> None:
    """Let the worker have nothing but hints that the server itself sealed. What is dropped, `/health` counts."""
    from runs import tasks  # Django is ready by now
    from runs.engines import control_hints
    from runs.presenting.server_state import count_dropped

    gate = MessageGate(tasks.TASKS, control_hints.is_ours, count_dropped)
    conf.broker_transport_options = {**conf.broker_transport_options, "gate": gate}


class Clock(bootsteps.StartStopStep):
    """Ticks, as a thread of the worker."""

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self.thread: Any = None

    def start(self, parent: Any) -> None:
        from runs.reconcile.clock import Clock as Ticks  # Django is ready by now

        self.thread = Ticks()
        self.thread.start()

    def stop(self, parent: Any) -> None:
        if self.thread is not None:
            self.thread.stop()


class Watch(bootsteps.StartStopStep):
    """Looks at what live runs log, as a thread of the worker."""

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self.thread: Any = None

    def start(self, parent: Any) -> None:
        from runs.watching.clock import WatchClock  # Django is ready by now

        self.thread = WatchClock()
        self.thread.start()

    def stop(self, parent: Any) -> None:
        if self.thread is not None:
            self.thread.stop()


class Allocations(bootsteps.StartStopStep):
    """Asks the systems of engines that bring nodes, as a thread beside the ticks: those may answer slowly."""

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self.thread: Any = None

    def start(self, parent: Any) -> None:
        from runs.engines.allocation_clock import AllocationClock  # Django is ready by now

        self.thread = AllocationClock()
        self.thread.start()

    def stop(self, parent: Any) -> None:
        if self.thread is not None:
            self.thread.stop()


class Sweeps(bootsteps.StartStopStep):
    """Steps sweeps, as a thread beside the ticks: a sampler may take its time."""

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self.thread: Any = None

    def start(self, parent: Any) -> None:
        from runs.sweeps.clock import SweepClock  # Django is ready by now

        self.thread = SweepClock()
        self.thread.start()

    def stop(self, parent: Any) -> None:
        if self.thread is not None:
            self.thread.stop()


class Listener(bootsteps.StartStopStep):
    """Receives the hints of supervisors with a new report, as another thread of the worker."""

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


class ProviderChecks(bootsteps.StartStopStep):
    """Asks identity providers whether people may stay signed in, as another thread."""

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self.thread: Any = None

    def start(self, parent: Any) -> None:
        from runs.identity.checking import CheckClock  # Django is ready by now

        self.thread = CheckClock()
        self.thread.start()

    def stop(self, parent: Any) -> None:
        if self.thread is not None:
            self.thread.stop()


class AuditToCollector(bootsteps.StartStopStep):
    """Sends rows of the audit to a collector, as another thread."""

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self.thread: Any = None

    def start(self, parent: Any) -> None:
        from runs.audit.otlp import start_clock  # Django is ready by now

        self.thread = start_clock()

    def stop(self, parent: Any) -> None:
        if self.thread is not None:
            self.thread.stop()


class Privacy(bootsteps.StartStopStep):
    """Makes exports, applies retention and measures what projects store, as another thread."""

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self.thread: Any = None

    def start(self, parent: Any) -> None:
        from runs.privacy.clock import PrivacyClock  # Django is ready by now

        self.thread = PrivacyClock()
        self.thread.start()

    def stop(self, parent: Any) -> None:
        if self.thread is not None:
            self.thread.stop()


class Lifeline(bootsteps.Step):
    """Stop when the parent under `up` is gone."""

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        lifeline.watch()


app.steps["worker"] |= {
    Clock,
    Watch,
    Allocations,
    Sweeps,
    Listener,
    ProviderChecks,
    AuditToCollector,
    Privacy,
    Lifeline,
}
