"""Two runs side by side: code, packages, media of one step, ends of logs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.pages.compare import sides
from runs import actions
from runs.models import Run, User
from runs.records.media.store import Item, Totals, write_media
from runs.records.metrics.models import Telemetry
from runs.records.points import store
from tests.cast import Cast, spec
from trainyard.bundle import pack
from trainyard.contract.base import SpecDocument

pytestmark = pytest.mark.django_db(databases="__all__")
AsUser = Callable[[User], Client]
MakeRun = Callable[..., Run]


def side_of(client: Client, name: str, *runs: Run, **query: str) -> Any:
    answer = client.get("/runs/compare/", {"run": [run.pk for run in runs], "fragment": name, **query})
    assert answer.status_code == 200
    return answer


def scripted(cast: Cast, folder: Path, **files: str) -> dict[str, Any]:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    row = actions.store_bundle(actor=cast.mate, project=cast.project, data=pack(folder)[0])
    return {"task": {"script": "train.py", "code": {"sha256": row.sha256}}}


@pytest.fixture
def pair(cast: Cast, make_run: MakeRun, tmp_path: Path) -> tuple[Run, Run]:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    first = scripted(cast, old, train_py="lr = 1\nwidth = 2\n", requirements_txt="numpy==1.0\ntorch>=2  # any\n")
    second = scripted(cast, new, train_py="lr = 3\nwidth = 2\n", requirements_txt="numpy==2.0\ntorch>=2\neinops\n")
    listed = {"environment": {"requirements": ["-r requirements.txt"], "python": "3.12"}}
    return make_run(name="one", spec=spec(**first, **listed)), make_run(name="<two>", spec=spec(**second, **listed))


def test_the_code_of_the_others_is_a_patch_against_the_first(
    cast: Cast, as_user: AsUser, pair: tuple[Run, Run]
) -> None:
    answer = side_of(as_user(cast.viewer), "code", *pair)
    changed = [[one.text for one in side.lines if one.kind in ("added", "removed")] for side in answer.context["sides"]]
    assert changed[0] == []
    assert changed[1] == [
        "-numpy==1.0",
        "-torch>=2  # any",
        "+numpy==2.0",
        "+torch>=2",
        "+einops",
        "-lr = 1",
        "+lr = 3",
    ]
    text = answer.content.decode()
    assert "2 files differ." in text and "&lt;two&gt;" in text and "<two>" not in text


def test_code_that_is_the_same_or_gone_is_said_to_be(
    cast: Cast, as_user: AsUser, make_run: MakeRun, pair: tuple[Run, Run]
) -> None:
    same = make_run(name="same", spec=pair[0].spec)
    gone = make_run(name="gone", spec=spec(task={"script": "train.py", "code": {"sha256": "f" * 64}}))
    found = side_of(as_user(cast.viewer), "code", pair[0], same, gone).context["sides"]
    assert [side.note for side in found] == ["", "The same files.", "The files of one of them are not kept here."]


def test_a_difference_is_bounded_and_says_what_it_leaves_out() -> None:
    base = {f"file-{number:03d}": b"old\n" for number in range(sides.MAX_FILES + 1)}
    lines, note = sides.difference(base, dict.fromkeys(base, b"new\n"))
    assert note == "101 files differ. More is not shown." and len(lines) <= sides.MAX_DIFF_LINES
    lines, note = sides.difference({"a": b"\0\1"}, {"a": b"x\n" * (sides.MAX_LINES + 1)})
    assert note == "1 file differs." and "no text, or too long" in lines[-1].text
    lines, _ = sides.difference({}, {"new.py": b"x\n"})
    assert [line.text for line in lines] == ["--- /dev/null", "+++ new.py", "@@ -0,0 +1 @@", "+x"]


def test_packages_that_differ_are_listed_with_their_versions(
    cast: Cast, as_user: AsUser, pair: tuple[Run, Run]
) -> None:
    context = side_of(as_user(cast.viewer), "environment", *pair).context
    assert {one["name"]: one["versions"] for one in context["lines"]} == {
        "numpy": ["1.0", "2.0"],
        "einops": ["", "any"],
    }
    assert context["num_same"] == 2, "torch, and Python"


@pytest.mark.parametrize(
    ("lock", "found"),
    [
        ('[[package]]\nname = "Torch"\nversion = "2.1"\n', {"torch": "2.1"}),
        ("package = 3", {}),
        ('package = ["a", {version = 3}]', {}),
        ("no = toml [", {}),
    ],
)
def test_a_lock_names_versions_and_a_broken_one_none(lock: str, found: dict[str, str]) -> None:
    spec = SpecDocument({"environment": {"lock": "uv.lock"}})
    assert sides.packages_of(spec, {"uv.lock": lock.encode()}) == found


def test_media_of_one_name_stand_at_the_last_step_that_all_have(
    cast: Cast, as_user: AsUser, pair: tuple[Run, Run]
) -> None:
    for run, steps in zip(pair, ([10, 20, 30], [10, 20]), strict=True):
        texts = [(step, f"{run.name} at {step}".encode()) for step in steps]
        items = [(0, Item("samples", {}, "{}", "text", step, 1.0, {}, text)) for step, text in texts]
        write_media(run.pk, attempt=1, cursor=1, items=items, totals=Totals(), at_most=Totals(100, 10_000))
    client = as_user(cast.viewer)
    context = side_of(client, "media", *pair).context
    assert [side.text for side in context["sides"]] == ["one at 20", "<two> at 20"]
    assert [step for step, _ in context["steps"]] == [10, 20, 30]
    chosen = side_of(client, "media", *pair, key="samples ", step="30")
    assert [side.text for side in chosen.context["sides"]] == ["one at 30", ""]
    assert "Nothing at this step." in chosen.content.decode()
    assert side_of(client, "media", *pair, key="nothing", step="x").status_code == 200


def test_logs_end_beside_each_other_without_colours_of_terminals(
    cast: Cast, as_user: AsUser, pair: tuple[Run, Run]
) -> None:
    lines = [(float(number), f"\x1b[31mline {number}\x1b[0m") for number in range(80)]
    Telemetry.objects.create(run_id=pair[0].pk, cursor=1)
    store.write_lines(pair[0].pk, attempt=1, cursor=1, lines=[store.StreamLines(0, "stdout", lines)])
    first, second = side_of(as_user(cast.viewer), "logs", *pair).context["sides"]
    assert [text for _, text in first["lines"]] == [f"line {number}" for number in range(20, 80)] and second[
        "lines"
    ] == []


@pytest.mark.parametrize("name", sorted(sides.SIDES))
def test_one_alone_and_runs_of_others_have_no_side(
    name: str, cast: Cast, as_user: AsUser, make_run: MakeRun, pair: tuple[Run, Run]
) -> None:
    assert "Two to four runs" in side_of(as_user(cast.viewer), name, pair[0]).content.decode()
    hidden = side_of(as_user(cast.outsider), name, *pair).content.decode()
    assert "Two to four runs" in hidden and "numpy" not in hidden
    bare = make_run(name="bare", spec=spec())
    assert side_of(as_user(cast.viewer), name, bare, pair[0], *[make_run() for _ in range(5)]).status_code == 200
