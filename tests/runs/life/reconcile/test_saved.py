"""A queue that was saved is played again elsewhere, with the decisions and sentences of the round that follows."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from runs.life.reconcile import schedule
from runs.life.reconcile.placing import save_queue
from runs.models import Event, Node, Project, Run
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_node, make_run

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]


def waiting(cast: Cast, name: str, nodes: int = 1, slots: int = 1, **changes: Any) -> Run:
    size = {"num_nodes": nodes, "slots_per_node": slots, "accelerator": "auto"}
    return make_run(cast, name=name, **{**size, **changes})


def replayed(file: Path) -> dict[str, str]:
    out = StringIO()
    call_command("replay_queue", str(file), stdout=out)
    first, *lines = out.getvalue().splitlines()
    assert first.startswith(f"{len(lines)} run") and "on cluster local, as they were 20" in first
    return dict(line.split("  ", 1) for line in lines)


def kept(cast: Cast, file: Path, *seen: str) -> Path:
    found = save_queue(cast.cluster, timezone.now()).without_names({"default", *seen})
    file.write_text(json.dumps(msgspec.to_builtins(found, str_keys=True)))
    return file


def test_the_replay_decides_and_says_what_the_round_that_follows_does(cast: Cast, tmp_path: Path) -> None:
    limited = Project.objects.create(name="limited", slots=1)
    cast.cluster.projects.add(limited)
    first, _, full = (make_node(cast.cluster, f"node-{name}", slots=2) for name in "abc")
    folder = {"path": "/home/ty", "free_bytes": 0, "total_bytes": 100 << 30}
    checks = {"at": timezone.now().timestamp(), "home": folder, "checkpoints": folder}
    Node.objects.filter(pk=full.pk).update(self_check=checks)
    live = waiting(cast, "live", status=Status.RUNNING, limit_s=3_660.0)
    make_attempt(live, [first])
    runs = [
        waiting(cast, "urgent", priority=90),
        waiting(cast, "large", 2, 2),
        waiting(cast, "short", limit_s=60.0),
        waiting(cast, "long"),
        waiting(cast, "never", 9),
        waiting(cast, "beyond", 1, 2, project=limited),
        waiting(cast, "within", project=limited, limit_s=30.0),
        waiting(cast, "shrunk", 1, 1, node_counts=[1, 2], limit_s=60.0),
    ]
    decided = replayed(kept(cast, tmp_path / "queue.json", "limited"))
    assert decided.keys() == {run.pk for run in runs}
    schedule(cast.cluster.pk, timezone.now())
    for run in runs:
        run.refresh_from_db()
        placed = Event.objects.filter(run=run, code="placed").first()
        assert decided[run.pk] == (placed.sentence if placed else run.reason_sentence), run.name
    states = {run.name: run.status for run in runs}
    assert states["urgent"] == Status.SCHEDULED and states["large"] == Status.QUEUED
    assert "limited may hold 1 slot at once" in decided[runs[5].pk] and "Waiting for larger" in decided[runs[4].pk]
    assert "/home/ty" in " ".join(decided.values()), "a check keeps runs off node-c, and is said"


def test_a_run_that_is_to_start_again_later_keeps_its_room(cast: Cast, tmp_path: Path) -> None:
    make_node(cast.cluster, slots=2)
    later = timezone.now() + timedelta(minutes=1)
    again = waiting(cast, "again", 1, 2, status=Status.RECOVERING, recover_at=later, fence=1)
    behind = waiting(cast, "behind")
    decided = replayed(kept(cast, tmp_path / "queue.json"))
    assert decided[again.pk] == "Waiting until it is to start again." and "Waiting for 1 more" in decided[behind.pk]
    schedule(cast.cluster.pk, timezone.now())
    assert Run.objects.get(pk=behind.pk).reason_sentence == decided[behind.pk]


def test_a_queue_without_runs_has_its_nodes(cast: Cast, tmp_path: Path) -> None:
    make_node(cast.cluster, "idle")
    saved = json.loads(kept(cast, tmp_path / "queue.json").read_text())
    assert [one["name"] for one in saved["round"]["rooms"]] == ["idle"]
    assert replayed(tmp_path / "queue.json") == {}


def test_projects_that_one_does_not_see_have_numbers(cast: Cast, tmp_path: Path) -> None:
    hidden = Project.objects.create(name="hidden-thing", slots=1, weight=3, regions="eu")
    cast.cluster.projects.add(hidden)
    make_node(cast.cluster, slots=1, inventory={"kept": {"hidden-thing/abc": 5, "gone-thing/abc": 0, "default/abc": 0}})
    waiting(cast, "secret-run", 1, 2, project=hidden, needs={"kept": ["hidden-thing/abc"]})
    waiting(cast, "own")
    text = kept(cast, tmp_path / "queue.json").read_text()
    assert not any(word in text for word in ("hidden-thing", "gone-thing", "secret-run", "mate", "owner"))
    assert "project-" in text and '"default"' in text
    assert len(replayed(tmp_path / "queue.json")) == 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"at": 1}', "\\ud800", '{"round": NaN}'])
def test_another_file_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(text)
    with pytest.raises(CommandError, match=r"other\.json is no saved queue: "):
        call_command("replay_queue", str(file))
    with pytest.raises(CommandError, match=r"absent\.json is no saved queue: "):
        call_command("replay_queue", str(tmp_path / "absent.json"))


def test_numbers_that_no_queue_has_are_refused(cast: Cast, tmp_path: Path) -> None:
    make_node(cast.cluster, slots=1)
    waiting(cast, "one")
    file = kept(cast, tmp_path / "queue.json")
    saved = json.loads(file.read_text())
    saved["round"]["queue"][0]["num_shares"] = 0
    file.write_text(json.dumps(saved))
    with pytest.raises(CommandError, match="is no saved queue: division by zero"):
        call_command("replay_queue", str(file))
