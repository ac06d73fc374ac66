"""The page of a cluster's queue: its order, predicted starts, priorities, shares, and the drawing over time."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from runs.models import Attempt, AuditEntry, Cluster, HeldSlot, Project, Run, StartTerms, User
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, make_run, spec

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]
AsUser = Callable[[User], Client]
PATH = "/nodes/clusters/local/queue/"
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"


def waiting(cast: Cast, name: str, *, minutes: float | None = None, **changes: Any) -> Run:
    """A run that waits for a slot, and that is expected to start in so many minutes."""
    now, start = timezone.now().timestamp(), None
    if minutes is not None:
        start = {"made_at": now, "at": now + 60 * minutes, "low": now + 30 * minutes, "high": now + 90 * minutes}
    values = {"name": name, "num_nodes": 1, "slots_per_node": 1, "predicted_start": start}
    return make_run(cast, **{**values, "accelerator": "auto", **changes})


def text_of(client: Client, path: str = PATH) -> str:
    return str(client.get(path).content.decode())


def test_the_queue_has_its_order_needs_reasons_and_predicted_starts(as_user: AsUser, cast: Cast) -> None:
    waiting(cast, "later", reason_sentence="Waiting for <i>room</i>.")
    first = waiting(cast, "sooner", minutes=30, priority=60, num_nodes=2, accelerator="gpu")
    text = text_of(as_user(cast.viewer))
    assert text.index("sooner") < text.index("later") and f'href="/runs/{first.pk}/"' in text
    assert "2 nodes × 1 GPU" in text and "Waiting for &lt;i&gt;room" in text and "nobody can say" in text
    assert f'about <time data-clock="{timezone.now().timestamp() + 1800:.0f}'[:-2] in text
    assert "the project that has used the least of late" in text
    assert text_of(as_user(cast.viewer), "/nodes/").count(f'href="{PATH}"') == 1


def test_a_start_that_was_expected_by_now_is_said_so(as_user: AsUser, cast: Cast) -> None:
    waiting(cast, "due", minutes=-1)
    assert "any moment" in text_of(as_user(cast.viewer))


def test_a_deadline_stands_in_the_queue_and_on_the_runs_page_with_the_expected_end(as_user: AsUser, cast: Cast) -> None:
    now = timezone.now()
    start = {"made_at": 0, "at": now.timestamp() + 60, "low": 0, "high": now.timestamp(), "ends": 4102444800}
    run = waiting(cast, "net", predicted_start=start)
    waiting(cast, "other", minutes=30)
    StartTerms.objects.create(run=run, deadline=now + timedelta(hours=1))
    due, ends = f'data-clock="{now.timestamp() + 3600:.0f}"', 'data-clock="4102444800"'
    for path in (PATH, f"/runs/{run.pk}/"):
        text = " ".join(text_of(as_user(cast.viewer), path).split())
        assert (
            text.count(due) == text.count(ends) == text.count("expected to end") - text.count("; expected to end") == 1
        )
    Run.objects.filter(pk=run.pk).update(predicted_start=None)
    text = text_of(as_user(cast.viewer))
    assert due in text and "expected to end" not in text
    Run.objects.filter(pk=run.pk).update(status=Status.SUCCEEDED, ended_at=now)
    assert due not in text_of(as_user(cast.viewer), f"/runs/{run.pk}/")


def test_of_a_run_that_is_to_start_later_its_time_is_known(as_user: AsUser, cast: Cast) -> None:
    later, past = timezone.now() + timedelta(hours=2), timezone.now() - timedelta(hours=2)
    for name, moment in (("later", later), ("due-now", past)):
        StartTerms.objects.create(run=waiting(cast, name), not_before=moment)
    text = " ".join(text_of(as_user(cast.viewer)).split())
    assert f'not before <time data-clock="{later.timestamp():.0f}"' in text
    assert text.count("not before") == text.count("nobody can say") == 1


def test_runs_of_others_are_counted_and_not_named(as_user: AsUser, cast: Cast) -> None:
    hidden = Project.objects.create(name="hidden-thing", weight=7)
    cast.cluster.projects.add(hidden)
    for number in range(3):
        waiting(cast, f"secret-{number}", project=hidden, priority=90 if number < 2 else 10)
    Cluster.objects.update(scheduling="first-come")
    waiting(cast, "own")
    text = text_of(as_user(cast.mate))
    assert "2 runs of other projects" in text and ">3</td>" in text and "and 1 more run<" in text
    assert "secret" not in text and "hidden-thing" not in text and "1 other project may" in text


def test_who_waits_for_nobody_reads_so_and_who_sees_no_cluster_nothing(as_user: AsUser, cast: Cast) -> None:
    assert "a run that fits starts at once" in text_of(as_user(cast.viewer))
    assert as_user(cast.outsider).get(PATH).status_code == 404


def test_a_long_queue_has_its_first_rows_and_the_number_of_the_rest(as_user: AsUser, cast: Cast) -> None:
    run = waiting(cast, "first")
    same = {"project": run.project, "cluster": run.cluster, "spec": spec(), "num_nodes": 1, "slots_per_node": 1}
    Run.objects.bulk_create(Run(name="n" * 120, number=-number, **same) for number in range(1, 310))
    text = text_of(as_user(cast.mate))
    assert text.count('data-key="queue-') == 300 and "and 10 more runs" in text


def test_a_priority_is_changed_in_its_row_and_recorded(as_user: AsUser, cast: Cast) -> None:
    waiting(cast, "first")
    run = waiting(cast, "second")
    client, path = as_user(cast.mate), f"/runs/{run.pk}/priority/"
    assert f'action="{path}"' in text_of(client)
    answer = client.post(path, {"priority": " 70 "})
    assert (answer.status_code, answer["Location"]) == (302, PATH)
    text = client.post(f"{path}?fragment=rows", {"priority": "low"}, headers={"X-Requested-With": "fetch"}).content
    assert b"second has the priority 25 now." in text and b"data-focus" in text and b"<html" not in text
    assert Run.objects.get(pk=run.pk).priority == 25
    row = AuditEntry.objects.filter(action="runs.priority", result="ok").latest("sequence")
    assert row.actor == "mate" and "25" in str(row.after)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("61", "61 is higher than 60"), ("101", "0 to 100"), ("-1", "0 to 100"), ("soon", "low, not &quot;soon&quot;"),
        ("NaN", "0 to 100"), ("", "0 to 100"), ("9" * 30, "0 to 100"),
    ],
)  # fmt: skip
def test_a_refused_priority_stands_in_its_row_with_the_reason(
    as_user: AsUser, cast: Cast, typed: str, words: str
) -> None:
    Project.objects.update(max_priority=60)
    run = waiting(cast, "own")
    answer = as_user(cast.mate).post(f"/runs/{run.pk}/priority/", {"priority": typed})
    text = answer.content.decode()
    assert answer.status_code == 422 and words in text and f'value="{typed[:20]}"' in text and "<html" in text
    assert Run.objects.get(pk=run.pk).priority == 50


def test_who_may_not_launch_changes_no_priority(as_user: AsUser, cast: Cast) -> None:
    run = waiting(cast, "own")
    assert "/priority/" not in text_of(as_user(cast.viewer))
    assert as_user(cast.viewer).post(f"/runs/{run.pk}/priority/", {"priority": "1"}).status_code == 403
    assert as_user(cast.outsider).post(f"/runs/{run.pk}/priority/", {"priority": "1"}).status_code == 404
    over = make_run(cast, status=Status.SUCCEEDED)
    assert as_user(cast.mate).post(f"/runs/{over.pk}/priority/", {"priority": "1"}).status_code == 409


def test_projects_have_their_shares(as_user: AsUser, cast: Cast) -> None:
    Project.objects.update(weight=2.5, guaranteed_slots=3)
    attempt = make_attempt(make_run(cast, status=Status.RUNNING), [make_node(cast.cluster)], ranks=2)
    Attempt.objects.filter(pk=attempt.pk).update(created_at=timezone.now() - timedelta(hours=1))
    text = text_of(as_user(cast.viewer))
    cells = "".join(f'<td class="num">{value}</td>' for value in ("2.5", "3", "2", "2.00"))
    assert f'<td class="break">default</td>{cells}' in text


def drawn(cast: Cast, name: str, node: Any, begin: float, end: float | None, *, ranks: int = 1, **changes: Any) -> Run:
    """A run that began so many hours ago, and ended so many hours ago; None: it trains."""
    now = timezone.now()
    run = make_run(cast, name=name, status=Status.RUNNING if end is None else Status.SUCCEEDED, **changes)
    attempt = make_attempt(run, [node], ranks=ranks, phase=Phase.RUNNING)
    ended_at = None if end is None else now - timedelta(hours=end)
    Attempt.objects.filter(pk=attempt.pk).update(created_at=now - timedelta(hours=begin), ended_at=ended_at)
    if end is not None:
        HeldSlot.objects.filter(placement__attempt=attempt).delete()
    return run


def test_what_held_slots_and_what_is_expected_is_drawn_with_its_words(as_user: AsUser, cast: Cast) -> None:
    node = make_node(cast.cluster, "node-a", slots=2)
    drawn(cast, "old", node, 9, 7)
    past = drawn(cast, "done", node, 3, 1, ranks=2)
    drawn(cast, "secret", node, 5, 4, project=Project.objects.create(name="hidden"))
    drawn(cast, "live", node, 0.5, None, limit_s=7_200.0)
    waiting(cast, "next", minutes=60)
    text = text_of(as_user(cast.viewer))
    picture = text[text.index('class="gantt"') : text.index("</section>", text.index('class="gantt"'))]
    assert f'href="/runs/{past.pk}/"><title>done: 2 of 2 slots of node-a, 2 h, measured from ' in picture
    places = re.search(r'<rect class="is-past" x="([\d.]+)%" width="([\d.]+)%"', picture[picture.index("done:") :])
    assert places and (round(float(places[1])), round(float(places[2]))) == (25, 17), "from three hours ago to one"
    assert "live: slot 0 of node-a, 30 min" in picture and "; expected to end about " in picture
    assert (
        "next: waits, expected to start about " in picture and ">Waiting</text>" in picture and "is-fade-out" in picture
    )
    assert "a run of another project: 1 of 2 slots" in picture and "secret" not in picture and "old" not in picture


def test_two_runs_at_once_are_drawn_on_different_slots(as_user: AsUser, cast: Cast) -> None:
    node = make_node(cast.cluster, slots=2)
    for number in range(2):
        drawn(cast, f"run-{number}", node, 2, 1)
    text = text_of(as_user(cast.viewer))
    assert 'y="0.0" height="18.0"' in text and 'y="18.0" height="18.0"' in text


def test_many_slots_are_drawn_as_the_share_of_their_node(as_user: AsUser, cast: Cast) -> None:
    drawn(cast, "half", make_node(cast.cluster, slots=32), 2, 1, ranks=16)
    text = text_of(as_user(cast.viewer))
    assert 'height="11.0"' in text and "share of the slots" in text


def test_the_words_of_a_bar_have_its_slots_and_exact_times(as_user: AsUser, cast: Cast) -> None:
    node = make_node(cast.cluster, "node-a", slots=4)
    drawn(cast, "done", node, 3, 1, ranks=2)
    live = drawn(cast, "live", node, 0.5, None, ranks=2, limit_s=7_200.0)
    for slot in HeldSlot.objects.order_by("-index"):  # it has the last two
        HeldSlot.objects.filter(pk=slot.pk).update(index=slot.index + 2)
    drawn(cast, "script", make_node(cast.cluster, "node-b", slots=1), 0.5, None)
    waiting(cast, "next", minutes=60)
    text = text_of(as_user(cast.viewer))
    began = f"{live.attempts.get().created_at:%Y-%m-%d %H:%M:%S} UTC"
    about = rf"about {TIME} \({TIME} to {TIME}\)"
    assert re.search(
        rf"live: slots 2 and 3 of node-a, 30 min[^,]*, measured from {began}; expected to end {about}<", text
    )
    assert re.search(rf"done: 2 of 4 slots of node-a, 2 h, measured from {TIME} to {TIME}<", text)
    assert re.search(
        rf"script: slot 0 of node-b, 30 min[^,]*, measured from {TIME}; nobody can say when it ends<", text
    )
    assert re.search(rf"next: waits, expected to start {about}<", text)
    bar = text[text.index("live: slots") :]
    assert 'y="36.0" height="36.0"' in bar[: bar.index("</a>")], "on its own slots"
    assert len(re.findall(r'data-part\s+tabindex="0"', text)) == 1, "one bar is reached by Tab"


def beside(client: Client, run: Run, other: Run) -> Any:
    path = f"/runs/{run.pk}/priority/?fragment=rows"
    return client.post(path, {"priority": "50", "beside": other.pk}, headers={"X-Requested-With": "fetch"})


def test_a_row_that_is_dropped_on_another_goes_past_it(as_user: AsUser, cast: Cast) -> None:
    Cluster.objects.update(scheduling="first-come")
    first, second, third = (waiting(cast, name) for name in ("first", "second", "third"))
    client = as_user(cast.mate)
    assert 'draggable="true"' in text_of(client) and "draggable" not in text_of(as_user(cast.viewer))
    text = beside(client, third, first).content.decode()
    assert "third has the priority 51 now." in text and text.index(">third<") < text.index(">first<")
    text = beside(client, third, second).content.decode()
    assert "third has the priority 50 now." in text and text.index(">second<") < text.index(">third<")
    text = beside(client, first, third).content.decode()
    assert "first has the priority 49 now." in text and text.index(">third<") < text.index(">first<")
    assert AuditEntry.objects.filter(action="runs.priority", result="ok").count() == 3
    assert as_user(cast.viewer).post(f"/runs/{first.pk}/priority/", {"beside": third.pk}).status_code == 403


def test_what_no_priority_brings_about_is_refused_with_the_reason(as_user: AsUser, cast: Cast) -> None:
    Cluster.objects.update(scheduling="first-come")
    top, own = waiting(cast, "top<b>", priority=100), waiting(cast, "own")
    client = as_user(cast.mate)
    answer = beside(client, own, top)
    words = "No priority brings it past top&lt;b&gt;: first comes the highest priority, then first come"
    assert answer.status_code == 422 and words in answer.content.decode()
    over = make_run(cast, status=Status.SUCCEEDED)
    assert beside(client, own, over).status_code == 422
    hidden = waiting(cast, "secret", project=Project.objects.create(name="hidden"))
    assert beside(client, own, hidden).status_code == 404
    Project.objects.filter(pk=own.project_id).update(max_priority=60)
    Run.objects.filter(pk=top.pk).update(priority=60)
    answer = beside(client, own, top)
    assert answer.status_code == 422 and b"61 is higher than 60" in answer.content
    assert Run.objects.get(pk=own.pk).priority == 50
