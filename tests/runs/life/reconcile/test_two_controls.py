"""Two control processes at once: one attempt, one go, slots that nobody holds twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from threading import Barrier, Thread

import pytest
from django.db import connections, transaction

from runs import actions
from runs.actions import Refused
from runs.life import reconcile
from runs.life.reconcile import loop
from runs.models import Attempt, Cluster, Event, HeldSlot, Project, Run
from runs.models.runs import StaleStatus
from runs.values.status import Status
from tests.cast import make_node, make_run, spec
from tests.runs.life.reconcile.conftest import Yard

NUM = 4


def at_once(call: Callable[[], object]) -> list[object]:
    """Call it in several threads, each with connections of its own, all at the same moment."""
    barrier = Barrier(NUM)

    def one() -> object:
        try:
            barrier.wait()
            return call()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(NUM) as pool:
        return [future.result() for future in [pool.submit(one) for _ in range(NUM)]]


def speak(yard: Yard) -> datetime:
    yard.later(1)
    for voice in yard.voices:
        voice.up(yard.now)
    return yard.now


def test_one_attempt_starts_although_many_place_at_once(yard: Yard) -> None:
    now = speak(yard)
    for number in range(3):
        actions.submit_run(actor=yard.cast.mate, document=spec(name=f"more-{number}"))
    at_once(lambda: reconcile.schedule(yard.cast.cluster.pk, now))
    assert Attempt.objects.filter(run=yard.run).count() == 1
    assert Attempt.objects.count() == 3 and HeldSlot.objects.count() == 4  # the fourth run waits: all slots are held
    assert Event.objects.filter(code="placed").count() == 3


def test_a_limit_is_not_passed_by_two_clusters_that_are_placed_at_one_instant(yard: Yard) -> None:
    Run.objects.all().delete()
    Project.objects.update(slots=1)
    far = Cluster.objects.create(name="far")
    far.projects.add(yard.cast.project)
    make_node(far, "node-far", slots=1)
    size = {"num_nodes": 1, "slots_per_node": 1, "accelerator": "auto"}
    here, there = make_run(yard.cast, **size), make_run(yard.cast, cluster=far, **size)
    now = speak(yard)

    def place() -> None:
        try:
            reconcile.schedule(far.pk, now)
        finally:
            connections.close_all()

    other = Thread(target=place)
    with transaction.atomic():
        reconcile.schedule(yard.cast.cluster.pk, now)
        other.start()
        other.join(1.0)
        assert other.is_alive(), "it waits for what this transaction makes of the limit"
    other.join(10)
    for run in (here, there):
        run.refresh_from_db()
    assert (here.status, there.status) == ("SCHEDULED", "QUEUED")
    words = "Project default may hold 1 slot at once: it holds 1, and this run needs 1."
    assert there.reason_sentence == words and HeldSlot.objects.count() == 1


def test_one_go_is_given_although_many_hear_that_all_are_ready(yard: Yard) -> None:
    yard.tick()
    yard.say("ready")
    now = speak(yard)
    at_once(lambda: reconcile.reconcile_run(yard.run.pk, now))
    assert yard.status == "STARTING"
    assert Event.objects.filter(code="starting").count() == 1


def test_of_two_ticks_at_once_one_has_nothing_to_do(yard: Yard) -> None:
    now = speak(yard)
    assert sorted(map(bool, at_once(lambda: reconcile.tick(now))))[-1]
    assert Attempt.objects.count() == 1
    assert loop.redis().get(loop.LOCK_KEY) is None  # given back


def test_a_lock_whose_holder_died_is_taken_over(yard: Yard) -> None:
    loop.redis().set(loop.LOCK_KEY, "somebody", px=150)
    assert not reconcile.tick(yard.now)
    while loop.redis().exists(loop.LOCK_KEY):
        pass
    assert reconcile.tick(yard.now)


def test_a_stop_at_the_moment_of_the_placing_is_never_lost(yard: Yard) -> None:
    now = speak(yard)
    runs = [actions.submit_run(actor=yard.cast.mate, document=spec(name=f"run-{number}")) for number in range(2)]
    barrier = Barrier(2)

    def place() -> None:
        barrier.wait()
        reconcile.schedule(yard.cast.cluster.pk, now)
        connections.close_all()

    def stop() -> None:
        barrier.wait()
        for run in runs:
            actions.stop_run(actor=yard.cast.mate, run=run)
        connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(place), pool.submit(stop)]:
            future.result()
    for run in runs:
        run.refresh_from_db()
        assert run.status in (Status.CANCELLED, Status.STOPPING)
        live = Attempt.objects.filter(run=run, ended_at=None).count()
        assert live == (run.status == Status.STOPPING)


def test_many_who_move_a_run_at_once_move_it_once(yard: Yard) -> None:
    def move() -> str:
        try:
            actions.stop_run(actor=yard.cast.mate, run=Run.objects.get(pk=yard.run.pk))
        except (Refused, StaleStatus):
            return "refused"
        return "moved"

    assert sorted(at_once(move)).count("moved") >= 1  # type: ignore[type-var]
    assert Event.objects.filter(run=yard.run).count() == 1


def test_a_control_process_that_is_killed_in_the_middle_leaves_one_attempt(yard: Yard) -> None:
    """SIGKILL between the commit of a placement and its messages: the next tick sends the order again."""
    speak(yard)
    code = (
        "import os, signal, django; django.setup()\n"
        "from django.conf import settings\n"
        "from django.db import connections\n"
        "import sys; [connections[a].settings_dict.update(NAME=n) for a, n in zip(connections, sys.argv[1:])]\n"
        "from runs.life import reconcile\n"
        "from runs.engines.celery import CeleryEngine\n"
        "from django.utils import timezone\n"
        "CeleryEngine.start = lambda *words: os.kill(os.getpid(), signal.SIGKILL)\n"
        "reconcile.tick(timezone.now())\n"
    )
    names = [str(connections[alias].settings_dict["NAME"]) for alias in connections]
    if any("memory" in name for name in names):
        pytest.skip("the test database is in this process's memory")
    done = subprocess.run([sys.executable, "-c", code, *names], env=os.environ, capture_output=True, check=False)
    assert done.returncode == -9, done.stderr.decode()
    assert yard.status == "SCHEDULED"
    loop.redis().delete(loop.LOCK_KEY)
    assert yard.tick() == "SCHEDULED"
    assert Attempt.objects.count() == 1
    assert yard.voices[0].heard()["attempts"][yard.attempt.pk]["order"]["fence"] == 1
