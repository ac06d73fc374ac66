from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.pages.run.evidence import CAUSE_WORDS
from runs.models import Run, User
from runs.records.files import paths as places
from runs.records.metrics.models import Telemetry
from runs.values.columns import LeftOutNode, Recovery
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, spec
from tests.series import write_series
from trainyard.contract.base import to_builtins
from trainyard.contract.causes import Cause, CauseClass, Consequence
from trainyard.spec import parse_spec

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
MakeRun = Callable[..., Run]
TABS = (
    "",
    "ranks/",
    "system/",
    "plan/",
    "logs/",
    "terminal/",
    "apps/",
    "media/",
    "checkpoints/",
    "files/",
    "spec/",
    "timeline/",
)


def text_of(client: Client, url: str) -> str:
    answer = client.get(url)
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_has_the_header_in_its_first_response(
    tab: str, cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    run = make_run(name="hello", status=Status.RUNNING)
    write_series(run, "train/loss", [3.0, 2.0])
    text = text_of(as_user(cast.viewer), f"/runs/{run.pk}/{tab}")
    for words in ("hello", "running", "step <b>2</b> of 300", "ETA", "process", "progress", "telemetry"):
        assert words in text
    assert f'data-socket="/ws/runs/{run.pk}/"' in text


def test_before_its_log_was_counted_a_page_does_not_say_that_there_are_no_errors(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    text = text_of(as_user(cast.viewer), f"/runs/{make_run().pk}/logs/")
    assert "data-errors" in text and "No errors" not in " ".join(text.split())


def test_a_viewer_has_no_buttons_that_change_anything(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    url = f"/runs/{make_run(status=Status.RUNNING).pk}/"
    assert "/do/stop/" in text_of(as_user(cast.mate), url)
    of_viewers = set(re.findall(r"/do/([\w-]+)/", text_of(as_user(cast.viewer), url)))
    assert of_viewers == {"follow", "mute"}, "they change what the viewer gets, and nothing of the run"


@pytest.mark.parametrize("tab", TABS)
def test_markup_in_what_people_wrote_is_text(tab: str, cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    evil = "</pre></textarea></script><script>alert(1)</script>"
    run = make_run(
        name=evil,
        notes=evil,
        tags=[evil, '" onfocus="alert(1)'],
        status=Status.FAILED,
        reason_sentence=evil,
        reason_evidence={"traceback": evil, evil: evil},
    )
    run.record("note", evil)
    text = text_of(as_user(cast.mate), f"/runs/{run.pk}/{tab}")
    assert "<script>alert" not in text
    assert '" onfocus="' not in text


def test_a_failed_run_says_why_with_the_proof_and_a_button(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run(
        status=Status.FAILED,
        reason_sentence="Rank 1 on node-b failed with ValueError: no.",
        reason_evidence={"rank": 1, "exit_code": 1, "traceback": "Traceback: ValueError: no", "log": []},
    )
    text = text_of(as_user(cast.mate), f"/runs/{run.pk}/")
    for words in ("Rank 1 on node-b failed with ValueError: no.", "Traceback: ValueError: no", "exit code", "Restart"):
        assert words in text


def test_a_failed_run_shows_the_class_of_its_cause_and_what_followed(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    run = make_run(status=Status.FAILED, reason_sentence="The supervisor on b was killed; its ranks ended with it.")
    attempt = make_attempt(run, [make_node(cast.cluster)], phase=Phase.ENDED)
    felt = "Rank 0 on a lost its connection to another rank."
    attempt.cause = to_builtins(
        Cause(
            cause_class=CauseClass.PROCESS_LOST,
            sentence=run.reason_sentence,
            node="b",
            consequences=[Consequence(felt, "a", 0)],
        )
    )
    attempt.reason_sentence = run.reason_sentence
    attempt.save()
    text = text_of(as_user(cast.mate), f"/runs/{run.pk}/")
    banner = text[text.index("This run failed") :]
    assert banner.index("process lost") < banner.index(run.reason_sentence) < banner.index(felt)
    assert text_of(as_user(cast.mate), f"/runs/{run.pk}/ranks/").count("process lost") == 2  # with the attempt


def test_every_class_of_a_cause_has_a_word() -> None:
    assert set(CAUSE_WORDS) == set(CauseClass)


def test_without_evidence_the_first_rank_that_broke_is_shown(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run(status=Status.FAILED)
    attempt = make_attempt(run, [make_node(cast.cluster)], ranks=2, phase=Phase.ENDED)
    attempt.placements.update(
        report={
            "ranks": [
                {"rank": 0, "ended_at": 20.0, "exit_code": 1, "error": {"traceback": "the echo"}},
                {"rank": 1, "ended_at": 10.0, "exit_code": 1, "error": {"traceback": "the cause"}},
            ]
        }
    )
    text = text_of(as_user(cast.mate), f"/runs/{run.pk}/")
    assert "the cause" in text
    assert "the echo" not in text


def test_a_waiting_run_says_what_it_waits_for(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run(reason_sentence="Waiting for 2 more slots on cluster local.")
    assert "Waiting for 2 more slots on cluster local." in text_of(as_user(cast.viewer), f"/runs/{run.pk}/")


def test_a_run_that_recovers_says_which_restart_follows(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    now = time.time()
    left_out = LeftOutNode(node="b", name="node-b", why="gpu-fault there", until=now + 60)
    recovery = Recovery(number=2, total=2, failed_at=now, due_at=now + 2, left_out=[left_out])
    document = spec(restarts={"max": 3, "window": "1h", "backoff": "2s", "on": {}})
    reason = "Rank 1 was killed. Restart 2 of 3 follows after a pause of 2 s."
    run = make_run(status=Status.RECOVERING, reason_sentence=reason, spec=document, recovery=to_builtins(recovery))
    text = " ".join(text_of(as_user(cast.viewer), f"/runs/{run.pk}/").split())
    assert reason in text
    assert "restart <b>2</b> of 3" in text
    assert 'title="gpu-fault there; until 2' in text and "without <b>node-b</b>" in text


def test_the_ranks_tab_has_a_column_for_each_axis_in_use(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    resources, degrees = {"nodes": 2, "processes_per_node": 2}, {"tensor": 2, "pipeline": {"stages": 2}}
    run = make_run(spec=parse_spec(spec(resources=resources, parallel=degrees)).resolved())
    make_attempt(run, [make_node(cast.cluster, "node-x"), make_node(cast.cluster, "node-y")], ranks=2)
    text = text_of(as_user(cast.viewer), f"/runs/{run.pk}/ranks/")
    assert "4 ranks on 2 nodes, pipeline 2 × tensor 2, placed" in text
    assert re.findall(r"<th[^>]*>(\w+)</th>", text)[:6] == ["Rank", "Local", "Node", "Pipeline", "Tensor", "State"]
    rows = [
        re.findall(r"<td[^>]*>([^<]*)</td>", row)[:5] for row in re.findall(r'<tr data-key="rank.*?</tr>', text, re.S)
    ]
    assert rows == [
        ["0", "0", "node-x", "0", "0"],
        ["1", "1", "node-x", "0", "1"],
        ["2", "0", "node-y", "1", "0"],
        ["3", "1", "node-y", "1", "1"],
    ]


def test_the_ranks_of_a_script_have_no_coordinates(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run(spec=parse_spec({"name": "s", "task": {"script": "a.py"}, "resources": {"nodes": 2}}).resolved())
    make_attempt(run, [make_node(cast.cluster), make_node(cast.cluster)])
    text = text_of(as_user(cast.viewer), f"/runs/{run.pk}/ranks/")
    assert re.findall(r"<th[^>]*>(\w+)</th>", text)[:4] == ["Rank", "Local", "Node", "State"]


def test_the_ranks_tab_tells_what_became_of_each_rank(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run(status=Status.RUNNING)
    attempt = make_attempt(run, [make_node(cast.cluster, "node-x")], ranks=3, phase=Phase.RUNNING)
    attempt.placements.update(
        report={
            "ranks": [
                {"rank": 0, "pid": 4242, "started_at": time.time() - 60},
                {"rank": 1, "pid": 4243, "started_at": 1.0, "ended_at": 2.0, "signal": 9},
                {"rank": 2, "pid": 4244, "started_at": 1.0, "ended_at": 2.0, "exit_code": 0},
            ]
        }
    )
    text = text_of(as_user(cast.viewer), f"/runs/{run.pk}/ranks/")
    for words in ("node-x", "4242", "running", "killed by SIGKILL", "finished"):
        assert words in text


def test_a_run_that_hangs_says_so_with_the_line_of_each_rank(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run(status=Status.RUNNING)
    attempt = make_attempt(run, [make_node(cast.cluster, "node-x")], ranks=2, phase=Phase.RUNNING)
    waits = {"since": 1.0, "is_over": True, "collective": {"operation": "all_reduce"}, "line": "train.py line 84"}
    ranks = [{"rank": 0, "pid": 7, "stall": waits}, {"rank": 1, "pid": 8, "stall": {"since": 1.0, "is_stopped": True}}]
    attempt.placements.update(report={"ranks": ranks})
    sentence = "Rank 1 on node-x is stopped (SIGSTOP) at step 137; rank 0 waits for it in all_reduce."
    stack = {
        "rank": 0,
        "node": "node-x",
        "state": "waits in all_reduce",
        "stack": 'File "train.py", line 84, in <b>step',
    }
    attempt.hang = {"kind": "stopped", "sentence": sentence, "node": "node-x", "rank": 1, "stacks": [stack]}
    attempt.save()
    client = as_user(cast.viewer)
    overview, tab = text_of(client, f"/runs/{run.pk}/"), text_of(client, f"/runs/{run.pk}/ranks/")
    for text in (overview, tab):
        assert sentence in text
        assert "line 84, in &lt;b&gt;step" in text
    assert "This run makes no step" in overview
    for words in ("waits in all_reduce", "stopped by a signal"):
        assert words in tab
    answer = client.get(f"/api/v1/runs/{run.pk}").json()
    assert answer["lamps"]["progress"] == {"name": "progress", "colour": "red", "sentence": sentence}
    (listed,) = client.get(f"/api/v1/runs/{run.pk}/attempts").json()["items"]
    assert (listed["hang"]["rank"], listed["hang"]["sentence"], listed["hang"]["stacks"]) == (1, sentence, [stack])


def test_the_timeline_lists_events_with_who_did_them(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run()
    run.move_to(Status.CANCELLED, code="stopped", sentence="Stopped by mate.", actor=cast.mate)
    text = text_of(as_user(cast.viewer), f"/runs/{run.pk}/timeline/")
    assert "Stopped by mate." in text
    assert "queued → cancelled" in text


def test_the_files_tab_lists_what_the_run_left(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run(status=Status.SUCCEEDED)
    folder = places.output_folder(run.pk)
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a b#.bin").write_bytes(b"x" * 1536)
    (folder / "link").symlink_to("/etc/passwd")
    text = text_of(as_user(cast.viewer), f"/runs/{run.pk}/files/")
    assert "deep/a b#.bin" in text
    assert "1.5 KiB" in text
    assert f"/api/v1/runs/{run.pk}/files/deep/a%20b%23.bin" in text
    assert "link" not in text.split("<tbody>")[1].split("</tbody>")[0]


def test_the_header_alone_is_a_fragment(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    text = text_of(as_user(cast.viewer), f"/runs/{make_run().pk}/?fragment=header")
    assert "run-head" in text
    assert "<html" not in text


def test_the_tab_of_the_browser_says_how_far_a_run_is(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    live, ended = make_run(name="hello", status=Status.RUNNING), make_run(name="hello", status=Status.FAILED)
    write_series(live, "train/loss", [3.0, 2.0, 1.0])
    assert "<title>1% hello · Trainyard</title>" in text_of(as_user(cast.viewer), f"/runs/{live.pk}/")
    assert "<title>hello, failed · Trainyard</title>" in text_of(as_user(cast.viewer), f"/runs/{ended.pk}/")


def test_clone_and_run_again_are_offered_once_and_to_those_who_may(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    run = make_run(status=Status.SUCCEEDED)
    form, again = f"{reverse('launch')}?from=run:{run.pk}", reverse("do", args=(run.pk, "again"))
    html, seen = text_of(as_user(cast.mate), f"/runs/{run.pk}/"), text_of(as_user(cast.viewer), f"/runs/{run.pk}/")
    assert (html.count(f'href="{form}"'), html.count(f'action="{again}"')) == (1, 1)
    assert form not in seen and again not in seen


def test_what_became_of_the_records_is_said_where_there_is_something_to_say(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    run = make_run(status=Status.RUNNING)
    client, url, headline = as_user(cast.viewer), f"/runs/{run.pk}/?fragment=header", "had trouble on their way"
    assert "run-remarks" not in text_of(client, url)
    told = Telemetry.objects.create(run_id=run.pk, troubles={"repeated": 1200})
    text = text_of(client, url)
    assert "1,200 records came again" in text and headline not in text, "nothing is wrong with that"
    told.troubles |= {"lost_points": 1, "series_limit": 30}
    told.save()
    text = text_of(client, url)
    places_of = [text.index(words) for words in (headline, "1 point was lost", "30 points were not kept", "came again")]
    assert places_of == sorted(places_of), "the worst first"
