"""The Checkpoints tab: what it says of each, what it offers to whom, and what it teaches when it is empty."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from runs.models import Run, User
from tests.cast import Cast, make_attempt, make_node, spec
from tests.checkpoints import saved, tell
from trainyard.spec import parse_spec

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
MakeRun = Callable[..., Run]
DOCUMENT = parse_spec(spec()).resolved()


def text_of(client: Client, run: Run, query: str = "") -> str:
    answer = client.get(f"/runs/{run.pk}/checkpoints/{query}")
    assert answer.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", answer.content.decode()).split())


@pytest.fixture
def run(cast: Cast, make_run: MakeRun) -> Run:
    """Attempt 1 saved 100, 200 and 300; 100 was deleted, 300 torn, and attempt 2 went on from 200."""
    run = make_run(spec=DOCUMENT, status="RUNNING")
    node = make_node(cast.cluster, "node-a")
    make_attempt(run, [node], ended_at="2026-01-01T00:00:00Z").placements.all().delete()
    tell(run, saved(100), saved(200), saved(300), {"state": "deleted", "step": 100})
    make_attempt(run, [node])
    tell(run, {"state": "invalid", "step": 300, "fence": 1, "why": "weights.safetensors is short"})
    tell(run, {"state": "restored", "step": 200, "fence": 1})
    return run


def test_each_checkpoint_says_what_it_is_and_who_took_and_used_it(cast: Cast, as_user: AsUser, run: Run) -> None:
    text = text_of(as_user(cast.viewer), run, "?fragment=checkpoints")
    assert (
        "Checkpoints 1 to continue from, 4.0 KiB on the nodes; saving them paused training for 30 ms in total" in text
    )
    assert re.search(r"200 valid 4.0 KiB attempt 1 , rank 0 on node-a .* 500 ms 10 ms 2 ranks: data 2 attempt 2", text)
    assert "300 invalid weights.safetensors is short" in text
    assert "100 deleted" in text


def test_only_a_sound_one_is_gone_on_from_and_by_members(cast: Cast, as_user: AsUser, run: Run) -> None:
    url = f"/runs/{run.pk}/checkpoints/"
    page = as_user(cast.mate).get(url).content.decode()
    assert re.findall(r"from=checkpoint[^\"]+", page) == [f"from=checkpoint%3A{run.pk}%40200"]
    assert "Continue from here" not in as_user(cast.viewer).get(url).content.decode()


def test_one_that_a_restart_did_not_find_is_not_called_valid(cast: Cast, as_user: AsUser, run: Run) -> None:
    missing = {"state": "invalid", "step": 200, "fence": 1, "missing": True, "why": "there is no such folder"}
    tell(run, missing)
    client = as_user(cast.mate)
    text = text_of(client, run, "?fragment=checkpoints")
    assert "200 missing Attempt 2 did not find it: there is no such folder" in text and "200 valid" not in text
    assert "Checkpoints 0 to continue from" in text and "4.0 KiB on the nodes" not in text
    assert "Continue from here" not in text
    tell(run, {"state": "restored", "step": 200, "fence": 1})
    assert "200 valid" in text_of(client, run, "?fragment=checkpoints"), "it was found after all"
    tell(run, {**missing, "step": 150}, saved(150, fence=2), saved(200, fence=2))
    assert "missing" not in text_of(client, run, "?fragment=checkpoints"), "what was saved later is there"


def test_continue_opens_the_form_with_the_checkpoint_filled_in(cast: Cast, as_user: AsUser, run: Run) -> None:
    page = as_user(cast.mate).get(f"/launch/?from=checkpoint:{run.pk}@200").content.decode()
    assert f'value="{run.pk}@200"' in page and 'value="300"' in page
    tell(run, saved(300, fence=2))
    page = as_user(cast.mate).get(f"/launch/?from=checkpoint:{run.pk}@300").content.decode()
    assert 'value="600"' in page  # behind the last step there would be nothing to train
    assert as_user(cast.outsider).get(f"/launch/?from=checkpoint:{run.pk}@200").status_code == 404


def test_a_script_goes_on_in_its_own_run_only(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run(spec=spec(task={"script": "train.py"}), fence=1)
    tell(run, saved(10))
    assert "Continue from here" not in text_of(as_user(cast.mate), run)
    assert as_user(cast.mate).get(f"/launch/?from=checkpoint:{run.pk}@10").status_code == 404


def test_a_run_that_went_on_elsewhere_is_a_link(cast: Cast, as_user: AsUser, run: Run, make_run: MakeRun) -> None:
    document = {**DOCUMENT, "checkpoint": {"restore": f"{run.pk}@200"}}
    other = make_run(spec=document, name="the-next", fence=1)
    tell(other, {"state": "restored", "run": run.pk, "step": 200, "fence": 1})
    page = as_user(cast.viewer).get(f"/runs/{run.pk}/checkpoints/").content.decode()
    assert f'href="/runs/{other.pk}/">the-next</a>' in page


def test_why_none_are_kept_is_said_until_one_is(cast: Cast, as_user: AsUser, run: Run) -> None:
    tell(run, {"state": "off", "why": "the nodes do not share a folder <b>", "at": 1.8e9})
    assert "No checkpoints are kept: the nodes do not share a folder &lt;b&gt;." in text_of(as_user(cast.viewer), run)
    tell(run, saved(350, at=1.9e9))
    assert "No checkpoints are kept" not in text_of(as_user(cast.viewer), run)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"spec": DOCUMENT}, "No checkpoints yet. One is taken every 100 steps, and at the end; a restart goes on"),
        (
            {"spec": DOCUMENT, "status": "FAILED"},
            "No checkpoints. One is taken every 100 steps, and at the end; this run",
        ),
        ({"spec": {**DOCUMENT, "checkpoint": {"every_steps": 0}}}, "says checkpoint.every_steps: 0"),
        ({"spec": spec(task={"script": "train.py"})}, "reports them with run.note"),
        (
            {"spec": {"task": {}}, "name": "elsewhere", "local_id": "0" * 32, "cluster": None},
            "logged outside of Trainyard",
        ),
    ],
    ids=["live", "failed", "none wanted", "script", "local"],
)
def test_an_empty_tab_teaches(
    cast: Cast, as_user: AsUser, make_run: MakeRun, changes: dict[str, object], words: str
) -> None:
    spec_of = changes["spec"]
    assert isinstance(spec_of, dict)
    run = make_run(**{**changes, "spec": {"name": "x", **spec_of}})
    assert words in text_of(as_user(cast.viewer), run)


def test_of_very_many_the_newest_are_shown(cast: Cast, as_user: AsUser, run: Run) -> None:
    tell(run, *(saved(step) for step in range(1000, 1110)))
    text = text_of(as_user(cast.viewer), run)
    assert "The newest 100 of 113 are shown" in text
    assert "1,109 valid" in text and "1,009 valid" not in text
