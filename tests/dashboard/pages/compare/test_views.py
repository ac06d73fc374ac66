from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import escape

from dashboard.pages.clusters.boxes import boxes_of
from dashboard.pages.compare import rows, specs, views
from dashboard.pages.shared.run_colours import colour_of, colours_apart, colours_for
from runs.models import Project, Run, User, Workspace
from runs.presenting import listing
from runs.records.metrics.progress import METRIC_RULES, ReportedFact, write_facts
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_node, spec
from tests.series import write_series

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
MakeRun = Callable[..., Run]


def address(*runs: Run | str, **query: str) -> str:
    named = [("run", run if isinstance(run, str) else run.pk) for run in runs]
    return f"/runs/compare/?{urlencode([*named, *query.items()])}"


def text_of(client: Client, url: str) -> str:
    answer = client.get(url)
    assert answer.status_code == 200
    return answer.content.decode()


def batch(size: int, **changes: Any) -> dict[str, Any]:
    return spec(train={"steps": 300, "batch_size": size}, **changes)


def test_runs_stand_side_by_side_with_what_differs_and_what_they_reached(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    small, large = make_run(name="small", spec=batch(32)), make_run(name="large", spec=batch(64))
    write_series(small, "train/loss", [5.0, 2.5])
    write_series(large, "train/loss", [5.0, 3.123])
    context = as_user(cast.viewer).get(address(large, small)).context
    rows = context["list"].groups[0].rows
    assert [(row.run.name, row.value, row.note) for row in rows] == [
        ("large", 3.123, "highest"),
        ("small", 2.5, "lowest"),
    ]
    heads = [head.column.name for head in context["table"].heads]
    assert heads == ["name", "value", "status", "train.batch_size"], "what differs has columns"
    assert [one["fields"] for one in context["charts"]["runs"]] == [
        {"train.batch_size": "64"},
        {"train.batch_size": "32"},
    ]
    text = text_of(as_user(cast.viewer), address(small, large))
    for words in ("small", "large", "3.12", "2.50", "lowest", "batch_size"):
        assert words in text


def test_without_runs_the_page_teaches_how_to_choose_some(cast: Cast, as_user: AsUser) -> None:
    text = text_of(as_user(cast.viewer), "/runs/compare/")
    assert "select those that you wonder about" in text
    assert 'href="/runs/"' in text


def test_runs_that_are_gone_or_of_others_are_counted_and_never_named(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    secret = make_run(name="secret", project=Project.objects.create(name="other"))
    mine = make_run(name="mine")
    text = text_of(as_user(cast.viewer), address(mine, secret))
    assert "One run of this address is not shown: deleted, or not yours to see." in text
    assert secret.pk not in text.replace(f"run={secret.pk}", "")
    assert "secret" not in text
    assert "2 runs of this address are not shown" in text_of(as_user(cast.viewer), address(mine, secret, "nothing"))
    assert "are not shown" in text_of(as_user(cast.outsider), address(mine, secret))


def test_no_more_are_compared_than_can_be(
    cast: Cast, as_user: AsUser, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_COMPARED", 2)
    answer = as_user(cast.viewer).get(address(*[make_run() for _ in range(3)]))
    assert answer.context["num_runs"] == 2
    assert "This address names 3 runs; the first 2 are compared." in answer.content.decode()


@pytest.mark.parametrize(
    "query", [{"metric": "no/such"}, {"sort": "nonsense"}, {"group": "no.such"}, {"base": "x" * 900}]
)
def test_what_means_nothing_in_the_address_changes_nothing(
    query: dict[str, str], cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    run = make_run(name="first")
    write_series(run, "train/loss", [5.0])
    context = as_user(cast.viewer).get(address(run, make_run(), **query)).context
    assert context["metric"].name == "train/loss"
    assert [group.text for group in context["list"].groups] == [""]
    assert context["specs"].base == run.pk


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("", ["middle", "none", "top", "bottom"]),
        ("value", ["bottom", "middle", "top", "none"]),
        ("-value", ["top", "middle", "bottom", "none"]),
        ("name", ["bottom", "middle", "none", "top"]),
        ("status", ["middle", "none", "bottom", "top"]),
        ("train.batch_size,name", ["none", "top", "bottom", "middle"]),
        ("-train.batch_size", ["middle", "bottom", "none", "top"]),
        ("nothing.there", ["middle", "none", "top", "bottom"]),
    ],
)
def test_the_list_is_ordered_as_asked(
    sort: str, names: list[str], cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    runs = [
        make_run(name="middle", spec=batch(128)),
        make_run(name="none", spec=batch(32)),
        make_run(name="top", spec=batch(32), status=Status.SUCCEEDED),
        make_run(name="bottom", spec=batch(64), status=Status.RUNNING),
    ]
    for run, value in zip(runs, [2.0, float("nan"), 3.0, 1.0], strict=True):
        write_series(run, "train/loss", [value])
    rows = as_user(cast.viewer).get(address(*runs, sort=sort)).context["list"].groups[0].rows
    assert [row.run.name for row in rows] == names


def test_any_metric_and_its_extremes_can_be_shown(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run()
    write_series(run, "train/loss", [5.0, 1.0])
    write_series(run, "val/accuracy", [0.2, 0.9, 0.5])
    context = as_user(cast.viewer).get(address(run, metric="val/accuracy", statistic="max")).context
    assert context["metric"].names == ["train/loss", "val/accuracy"]
    assert context["list"].groups[0].rows[0].value == 0.9


def test_runs_are_grouped_by_what_differs(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    runs = [make_run(spec=batch(size)) for size in (32, 64, 32)]
    for run, value in zip(runs, (1.0, 5.0, 3.0), strict=True):
        write_series(run, "train/loss", [value])
    context = as_user(cast.viewer).get(address(*runs, group="train.batch_size", band="sd")).context
    groups = [(group.text, [row.run.pk for row in group.rows], group.mean) for group in context["list"].groups]
    assert groups == [("batch_size 32", [runs[0].pk, runs[2].pk], 2.0), ("batch_size 64", [runs[1].pk], 5.0)]
    context = as_user(cast.viewer).get(address(*runs, group="train.batch_size", sort="-value")).context
    assert [group.mean for group in context["list"].groups] == [5.0, 2.0]


def test_the_mean_of_a_group_is_that_of_the_runs_that_came_farthest_as_its_line_has_it(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    runs = [make_run(name=str(place), spec=batch(32)) for place in range(3)]
    for run, values in zip(runs, ([5.0, 3.0, 1.0], [5.0, 4.0, 2.0], [9.0]), strict=True):
        write_series(run, "train/loss", values)
    other = make_run(name="other", spec=batch(64))
    write_series(other, "train/loss", [7.0])
    found = as_user(cast.viewer).get(address(*runs, other, group="train.batch_size"))
    means = {group.text: (group.mean, group.num_counted) for group in found.context["list"].groups}
    assert sorted(means.values()) == [(1.5, 2), (7.0, 1)], "the one that ended at step 1 is not mixed in"
    assert "Mean over the 2 that came farthest" in found.content.decode()


def test_the_spec_table_has_the_differences_or_everything(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    runs = [make_run(spec=batch(32)), make_run(spec=batch(64, resources={"nodes": 2}))]
    client = as_user(cast.viewer)
    found = client.get(address(*runs, base=runs[1].pk)).context["specs"]
    assert [(section, [line.path for line in lines]) for section, lines in found.sections] == [
        ("resources", ["resources.nodes", "resources.processes_per_node"]), ("train", ["train.batch_size"])
    ]  # fmt: skip
    assert [(cell.text, cell.is_other) for cell in found.lines[1].cells] == [("1", True), ("–", False)]
    whole = client.get(address(*runs, all="1")).context["specs"]
    assert "train.steps" in [line.path for line in whole.lines if not line.is_different]


def test_markup_in_names_and_specs_is_text(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    evil = "</script><img src=x onerror=alert(1)>"
    runs = [make_run(name=evil, spec=spec(notes=evil)), make_run()]
    write_series(runs[0], f"a/{evil}", [1.0])
    text = text_of(as_user(cast.viewer), address(*runs, group="notes", metric=f"a/{evil}"))
    assert "<img" not in text


def test_the_fragments_are_the_partials_of_the_page(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run, other = make_run(name="hello", spec=batch(32)), make_run(spec=batch(64))
    for fragment in ("list", "specs"):
        text = text_of(as_user(cast.viewer), address(run, other, fragment=fragment))
        assert "hello" in text
        assert "<html" not in text


def test_many_runs_cost_no_more_queries_than_few(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    def num_queries(num_runs: int) -> int:
        url = address(*[make_run() for _ in range(num_runs)])
        client = as_user(cast.viewer)
        text_of(client, url)  # the first time, colours are kept
        with CaptureQueriesContext(connections["default"]) as queries:
            text_of(client, url)
        return len(queries)

    assert num_queries(8) <= num_queries(2)  # more than four are not offered side by side


def test_runs_beside_each_other_have_colours_of_their_own(cast: Cast, make_run: MakeRun) -> None:
    runs = [make_run() for _ in range(12)]
    apart = colours_apart(cast.viewer, runs)
    assert sorted(list(apart.values())[:10]) == list(range(10))
    assert apart[runs[0].pk] == colour_of(runs[0].pk)


def test_a_run_keeps_the_colour_of_a_comparison_on_every_page(cast: Cast, make_run: MakeRun) -> None:
    runs = [make_run() for _ in range(10)]
    apart = colours_apart(cast.viewer, runs)
    assert sorted(apart.values()) == list(range(10))
    assert colours_for(cast.viewer, runs) == apart
    assert colours_apart(cast.viewer, runs[::-1]) == apart, "the order makes no difference any more"
    assert colours_for(cast.mate, runs) == {run.pk: colour_of(run.pk) for run in runs}, "another person's are theirs"
    others = [make_run() for _ in range(9)]
    again = colours_apart(cast.viewer, [*others, runs[0]])
    assert again[runs[0].pk] == apart[runs[0].pk] and len(set(again.values())) == 10
    with CaptureQueriesContext(connections["default"]) as queries:
        assert colours_apart(cast.viewer, [*others, runs[0]]) == again
    assert len(queries) == 1, "nothing is written where nothing changed"


def test_a_cluster_shows_its_runs_in_the_colours_of_the_other_pages(cast: Cast, make_run: MakeRun) -> None:
    node = make_node(cast.cluster, "node-a")
    run = make_run()
    make_attempt(run, [node])
    Workspace.objects.create(user=cast.viewer, project=cast.project, state={"colours": {run.pk: 6}})
    [box] = boxes_of(cast.viewer, [node], timezone.now())
    assert [colour for _, colour in box.runs] == [7]


def test_a_colour_that_somebody_chose_is_theirs_alone(cast: Cast, make_run: MakeRun) -> None:
    run, other = make_run(), make_run()
    chosen = (colour_of(run.pk) + 1) % 10
    state = {"colours": {run.pk: chosen, other.pk: "red", "nothing": 3}}
    Workspace.objects.create(user=cast.viewer, project=cast.project, state=state)
    assert colours_for(cast.viewer, [run, other]) == {run.pk: chosen, other.pk: colour_of(other.pk)}
    assert colours_apart(cast.viewer, [other, run])[run.pk] == chosen
    assert colours_for(cast.mate, [run]) == {run.pk: colour_of(run.pk)}
    Workspace.objects.update(state={"colours": [1]})
    assert colours_for(cast.viewer, [run]) == {run.pk: colour_of(run.pk)}


def test_the_runs_of_a_filter_are_compared_with_named_ones_and_without_those_taken_out(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    runs = [make_run(name=f"muon {number}", spec=batch(2**number)) for number in range(4)]
    other = make_run(name="adam")
    secret = make_run(name="muon secret", project=Project.objects.create(name="other"))
    client = as_user(cast.viewer)

    def names(**query: Any) -> list[str]:
        found = client.get(f"/runs/compare/?{urlencode(query, doseq=True)}")
        assert found.status_code == 200 and secret.pk not in found.content.decode()
        return [one["name"] for one in found.context["charts"]["runs"]]

    assert names(filter="muon") == ["muon 3", "muon 2", "muon 1", "muon 0"], "the newest first"
    assert names(filter="muon and train.batch_size > 2") == ["muon 3", "muon 2"]
    assert names(filter="muon", run=other.pk, without=[runs[3].pk, runs[0].pk]) == ["adam", "muon 2", "muon 1"]
    assert len(names(project="default")) == 5


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"filter": "no.such.field = 1"}, "no.such.field is no field"),
        ({"filter": "name = "}, "It is at character 8."),
        ({"filter": "nothing-of-that-name"}, "No run that you may see fits this filter."),
        ({"filter": "<b>markup</b>"}, "This filter cannot be read."),
        ({"project": "gone"}, "No run that you may see fits this filter."),
    ],
)
def test_a_filter_that_finds_nothing_says_why_and_keeps_what_was_typed(
    query: dict[str, str], sentence: str, cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    make_run(name="mine")
    found = as_user(cast.viewer).get(f"/runs/compare/?{urlencode(query)}")
    text = found.content.decode()
    assert found.status_code == 200 and sentence in found.context["warning"]
    assert escape(query.get("filter", "")) in text and "<b>markup" not in text


def test_very_many_runs_are_drawn_in_groups_and_not_all_have_a_row(
    cast: Cast, as_user: AsUser, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MANY", 5)
    monkeypatch.setattr(rows, "MAX_SHOWN", 7)
    monkeypatch.setattr(rows, "MAX_OF_GROUP", 2)
    for number in range(8):
        write_series(
            make_run(spec=spec(train={"batch_size": 32 << number % 2, "seed": number})), "train/loss", [float(number)]
        )
    client = as_user(cast.viewer)
    found = client.get("/runs/compare/?project=default&sort=value")
    groups = found.context["list"].groups
    assert [(group.text, group.mean, group.num_runs) for group in groups] == [
        ("batch_size 32", 3.0, 4), ("batch_size 64", 4.0, 4)
    ]  # fmt: skip
    assert [[row.value for row in group.rows] for group in groups] == [[0.0, 2.0], [1.0, 3.0]]
    text = found.content.decode()
    assert 'data-usual-group="train.batch_size"' in text and text.count("2 more of this group") == 2
    each = client.get("/runs/compare/?project=default&group=*")
    assert [group.text for group in each.context["list"].groups] == [""] and each.context["is_each"]
    assert "1 more run in the charts has no row here" in " ".join(each.content.decode().split())


def test_of_very_many_runs_the_fields_have_their_values_with_counts(
    cast: Cast, as_user: AsUser, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(specs, "MAX_COLUMNS", 3)
    for size in (32, 32, 64, 128):
        make_run(spec=batch(size))
    found = as_user(cast.viewer).get("/runs/compare/?project=default").context["specs"]
    [(section, [line])] = found.summary
    assert (section, line.path, line.values[0]) == ("train", "train.batch_size", ("32", 2))


def test_others_are_held_against_a_baseline_in_words(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    runs = [
        make_run(name=f"{size} {seed}", spec=spec(train={"batch_size": size, "seed": seed}))
        for size in (32, 64)
        for seed in (0, 1)
    ]
    for run, value in zip(runs, (2.0, 2.1, 1.0, 1.05), strict=True):
        write_series(run, "train/loss", [value])
    alone = make_run(name="alone", spec=batch(128))
    write_series(alone, "train/loss", [float("nan")])
    client = as_user(cast.viewer)
    found = client.get(address(*runs, alone, base=runs[0].pk))
    words = {row.run.name: row.against.sentence for row in found.context["list"].groups[0].rows if row.against}
    assert words == {
        "32 1": "5 % higher than baseline",
        "64 0": "50 % lower than baseline; beyond noise (p = 0.01, 2 and 2 seeds)",
        "64 1": "48 % lower than baseline; beyond noise (p = 0.01, 2 and 2 seeds)",
        "alone": "No number to compare",
    }
    tones = {row.run.name: row.against.tone for row in found.context["list"].groups[0].rows if row.against}
    assert tones == {"32 1": "", "64 0": "better", "64 1": "better", "alone": ""}
    text = " ".join(found.content.decode().split())
    assert "<b>better</b>: 50 % lower than baseline; beyond noise" in text
    grouped = client.get(address(*runs, alone, base=runs[0].pk, group="train.batch_size")).context["list"].groups
    assert [group.has_base or group.against.text for group in grouped] == [
        True, "50 % lower than baseline", "No number to compare"
    ]  # fmt: skip
    assert client.get(address(*runs, base="gone")).context["list"].base is None
    write_facts(runs[2].pk, attempt=1, items=[(0, ReportedFact(METRIC_RULES, {"train/loss": {"goal": "max"}}, 0.0))])
    turned = client.get(address(*runs, alone, base=runs[0].pk)).context["list"].groups[0].rows
    assert {row.against.tone for row in turned if row.against} == {"", "worse"}, "a script said that more is better"


def test_a_run_that_ended_early_is_neither_better_nor_worse_for_that(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    long, short = make_run(spec=batch(32)), make_run(spec=batch(64))
    write_series(long, "train/loss", [4.0, 2.0, 1.0])
    write_series(short, "train/loss", [4.0, 2.0])
    client = as_user(cast.viewer)
    for query in ({}, {"group": "train.batch_size"}):
        found = client.get(address(long, short, base=long.pk, **query)).context["list"]
        [against] = [one.against for group in found.groups for one in (group, *group.rows) if one.against][-1:]
        assert (against.text, against.tone) == ("100 % higher than baseline (step 2 against 3)", "")
    lowest = client.get(address(long, short, base=long.pk, statistic="min")).context["list"].groups[0].rows[1]
    assert (lowest.against.text, lowest.against.tone) == ("100 % higher than baseline", "worse")


def test_with_one_seed_each_it_is_said_once_that_noise_cannot_be_told(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    runs = [make_run(spec=batch(size)) for size in (32, 64, 128)]
    for run, value in zip(runs, (2.0, 1.0, 3.0), strict=True):
        write_series(run, "train/loss", [value])
    text = " ".join(text_of(as_user(cast.viewer), address(*runs, base=runs[0].pk)).split())
    assert text.count("oise cannot be told from one seed each") == 1


def test_the_page_names_its_runs_for_the_script(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run(name="hello")
    text = text_of(as_user(cast.viewer), address(run, make_run()))
    assert re.search(r'<script id="compared-runs" type="application/json">\[\{"id": "' + run.pk, text)
