"""Control: the Celery app that schedules and reconciles. Its messages are hints; the database is the truth.

`celery -A dashboard.celery worker -Q control` is all of it: the clock that ticks every second is a thread of the
worker and sends nothing, so that a lost message, or a worker that receives none, costs a second at most. Several
workers may run: one of them ticks at a time.
"""

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


@signals.worker_shutdown.connect
def leave(sender: Any, **_: Any) -> None:
    """The last thing that a worker says: its threads have stopped, and its connections are closed."""
    lifeline.leave(sender.exitcode or 0)


class ThreadStep(bootsteps.StartStopStep):
    """A thread of the worker, made when the worker starts and stopped with it."""

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self.thread: Any = None

    def make(self) -> Any:
        """Return the thread. What it needs is imported here: Django is ready by now."""
        raise NotImplementedError

    def start(self, parent: Any) -> None:
        self.thread = self.make()
        self.thread.start()

    def stop(self, parent: Any) -> None:
        if self.thread is not None:
            self.thread.stop()


class Ticks(ThreadStep):
    """Ticks."""

    def make(self) -> Any:
        from runs.life.reconcile.clock import tick_clock

        return tick_clock()


class Watch(ThreadStep):
    """Looks at what live runs log."""

    def make(self) -> Any:
        from runs.life.watching.clock import watch_clock

        return watch_clock()


class Allocations(ThreadStep):
    """Asks the systems of engines that bring nodes, beside the ticks: those may answer slowly."""

    def make(self) -> Any:
        from runs.engines.allocations import AllocationClock

        return AllocationClock()


class Sweeps(ThreadStep):
    """Steps sweeps, beside the ticks: a sampler may take its time."""

    def make(self) -> Any:
        from runs.sweeps.stepping import sweep_clock

        return sweep_clock()


class Listener(ThreadStep):
    """Receives the hints of supervisors with a new report."""

    def make(self) -> Any:
        from runs.life.reconcile.clock import Hints

        return Hints()


class ProviderChecks(ThreadStep):
    """Asks identity providers whether people may stay signed in."""

    def make(self) -> Any:
        from runs.people.identity.checking import check_clock

        return check_clock()


class AuditToCollector(ThreadStep):
    """Sends rows of the audit to a collector, where the settings name one."""

    def start(self, parent: Any) -> None:
        from runs.rights.audit.otlp import start_clock

        self.thread = start_clock()


class Privacy(ThreadStep):
    """Makes exports, applies retention and measures what projects store."""

    def make(self) -> Any:
        from runs.privacy.clock import privacy_clock

        return privacy_clock()


class Lifeline(bootsteps.Step):
    """Stop when the parent under `up` is gone."""

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        lifeline.watch()


app.steps["worker"] |= {
    Ticks,
    Watch,
    Allocations,
    Sweeps,
    Listener,
    ProviderChecks,
    AuditToCollector,
    Privacy,
    Lifeline,
}
