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
from django.utils.module_loading import import_string

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
    """Let the worker have nothing but hints that the server itself sealed. What is dropped, `/health` counts. Stop when
    the parent under `up` is gone. Begin once no control with another Valkey has the database."""
    from dashboard.databases import share_connections
    from runs import tasks  # Django is ready by now
    from runs.engines import control_hints
    from runs.presenting.server_state import count_dropped
    from runs.serving.session_locks import keep_other_valkeys_away

    gate = MessageGate(tasks.TASKS, control_hints.is_ours, count_dropped)
    conf.broker_transport_options = {**conf.broker_transport_options, "gate": gate}
    lifeline.watch()
    share_connections()
    keep_other_valkeys_away()


@signals.worker_shutdown.connect
def leave(sender: Any, **_: Any) -> None:
    """The last thing that a worker says: its threads have stopped, and its connections are closed."""
    lifeline.leave(sender.exitcode or 0)


class ThreadStep(bootsteps.StartStopStep):
    """A thread of the worker, made when the worker starts and stopped with it."""

    made_by = ""  # imported when the worker starts: Django is ready by then

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self.thread: Any = None

    def start(self, parent: Any) -> None:
        self.thread = import_string(self.made_by)()
        if self.thread is not None:
            self.thread.start()

    def stop(self, parent: Any) -> None:
        if self.thread is not None:
            self.thread.stop()


THREADS = {
    "Ticks": "runs.life.reconcile.clock.tick_clock",
    "Watch": "runs.life.watching.clock.watch_clock",  # looks at what live runs log
    # Asks the systems of engines that bring nodes, beside the ticks: those may answer slowly.
    "Allocations": "runs.engines.allocations.AllocationClock",
    "Sweeps": "runs.sweeps.stepping.sweep_clock",  # beside the ticks: a sampler may take its time
    "Listener": "runs.life.reconcile.clock.Hints",  # receives the hints of supervisors with a new report
    "ProviderChecks": "runs.people.identity.checking.check_clock",  # asks whether people may stay signed in
    "Privacy": "runs.privacy.clock.privacy_clock",  # makes exports, applies retention, measures what projects store
    "Notices": "runs.notices.sending.notice_clock",  # makes notices, and sends them
    "AuditToCollector": "runs.rights.audit.otlp.otlp_clock",  # sends rows of the audit, where AUDIT_OTLP is set
    "Telemetry": "runs.presenting.telemetry.telemetry_clock",  # numbers and traces, where TELEMETRY_OTLP is set
}
STEPS = [type(name, (ThreadStep,), {"made_by": made_by}) for name, made_by in THREADS.items()]
app.steps["worker"] |= set(STEPS)
