"""Texts of reports: Markdown that lets nothing else in, and blocks that show what the reader may see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dashboard.pages.reports.render import Shown, render_report
from runs import actions
from runs.models import Project, Report, Run
from runs.records.metrics.models import Media
from tests.cast import Cast, make_run, spec
from tests.series import write_series

pytestmark = pytest.mark.django_db


def text_of(cast: Cast, body: str) -> str:
    return Shown(cast.mate, cast.project).draw(body)


def trained(cast: Cast, name: str = "first", rate: float = 0.1, *values: float) -> Run:
    run = make_run(cast, spec=spec(name=name, train={"learning_rate": rate}), name=name)
    write_series(run, "val/loss", values or (3.0, 1.0, 2.0))
    return run


def elsewhere(cast: Cast) -> Run:
    run = trained(cast, "secret-run")
    run.project = Project.objects.create(name="elsewhere")
    run.save()
    return run


def test_markdown_is_drawn_below_the_title_of_the_page(cast: Cast) -> None:
    drawn = text_of(cast, "# Head\n\n*slanted* [out](https://example.org) [in](/runs/)\n\n|a|b|\n|-|-:|\n|1|2|\n")
    assert "<h2>Head</h2>" in drawn and "<em>slanted</em>" in drawn and "<td>1</td>" in drawn
    assert '<td align="right">2</td>' in drawn and "style=" not in drawn
    assert 'href="https://example.org"' in drawn and 'href="/runs/"' in drawn


@pytest.mark.parametrize(
    "body",
    [
        "<script>alert(1)</script>",
        '<img src="x" onerror="alert(1)">',
        "[a](javascript:alert(1))",
        "[a](JAVASCRIPT:alert(1))",
        "[a](java&#10;script:alert(1))",
        "[a](data:text/html,<script>)",
        "<javascript:alert(1)>",
        "[a](vbscript:x)",
        "[a]: javascript:alert(1)\n\n[a]",
        '```"><script>alert(1)</script>\nx\n```',
        '```chart\nmetrics: <script>\nruns: "><script>\n```',
        "{{ run/<script> a last }}",
    ],
)
def test_nothing_in_a_text_runs(body: str, cast: Cast) -> None:
    drawn = text_of(cast, body).lower()
    assert "<script" not in drawn and "<img" not in drawn
    assert 'href="j' not in drawn and 'href="d' not in drawn and 'href="v' not in drawn


@pytest.mark.parametrize(
    "address", ["https://example.org/a.png", "//example.org/a.png", "/\\example.org/a.png", "http:a"]
)
def test_an_image_of_another_site_is_not_asked_for(address: str, cast: Cast) -> None:
    drawn = text_of(cast, f"![a cat]({address})")
    assert "<img" not in drawn
    assert '<img src="/static/cat.png" alt="a cat"' in text_of(cast, "![a cat](/static/cat.png)")


def test_a_chart_has_a_line_for_each_run(cast: Cast) -> None:
    one, other = trained(cast), trained(cast, "second")
    drawn = text_of(cast, f"```chart\nmetrics: val/loss\nruns: {one.pk}, run/{other.pk}\n```")
    assert drawn.count("<figure") == 1 and "first" in drawn and "second" in drawn
    assert drawn.count('fill="none" stroke="var(--series-') == 2


def test_a_table_has_columns_of_the_runs_that_fit(cast: Cast) -> None:
    run = trained(cast, "<first>")
    trained(cast, "second")
    body = "```table\nfilter: name = {}\ncolumns: name, status, summary.val/loss.min, train.learning_rate, created\n```"
    drawn = text_of(cast, body.format('"<first>"'))
    assert "&lt;first&gt;</a>" in drawn and "queued" in drawn and "<td>1</td>" in drawn and "<td>0.100</td>" in drawn
    assert "second" not in drawn and f'href="/runs/{run.pk}/"' in drawn and " UTC</td>" in drawn
    assert "No run fits." in text_of(cast, body.format("nothing"))


def test_what_differs_stands_side_by_side_with_what_was_reached(cast: Cast) -> None:
    one, other = trained(cast, "first", 0.1), trained(cast, "second", 0.2, 5.0)
    drawn = text_of(cast, f"```compare\nruns: {one.pk}, {other.pk}\n```")
    assert "train.learning_rate" in drawn and ">0.2</td>" in drawn and "val/loss, last" in drawn and ">5</td>" in drawn
    drawn = text_of(cast, f"```spec-diff\nruns: {one.pk}, {other.pk}\n```")
    assert "train.learning_rate" in drawn and "val/loss" not in drawn
    assert "The specs of these runs are the same" in text_of(
        cast, f"```spec-diff\nruns: {one.pk}, {trained(cast, 'third', 0.1).pk}\n```"
    )


@pytest.mark.parametrize(
    ("statistic", "shown"), [("min", "1"), ("max", "3"), ("last", "2"), ("best", "1"), ("mean", "2")]
)
def test_a_number_stands_within_the_text(statistic: str, shown: str, cast: Cast) -> None:
    run = trained(cast)
    drawn = text_of(cast, f"It *reached* {{{{ run/{run.pk} val/loss {statistic} }}}}, `{{{{ run/x }}}}`.")
    assert f">{shown}</a>" in drawn and f"{statistic} of val/loss of first" in drawn
    assert "<code>{{ run/x }}</code>" in drawn


@pytest.mark.parametrize(
    ("block", "sentence"),
    [
        ("```chart\nmetrics: a\nrun: x\n```", "Line 5: A chart has lines for runs, filter, metrics; not run: x."),
        ("```chart\nruns: x\n```", "Line 3: A chart needs a line metrics."),
        ("```chart\nmetrics: a\nmetrics: b\n```", "Line 5: This chart has metrics twice."),
        ("```chart\nmetrics: a\n```", "Line 3: A chart needs one line with ids of runs, or with a filter."),
        ("```table\nfilter: name = = b\n```", "Line 4: "),
        (
            "```table\nfilter: name = b\nruns: a\n```",
            "Line 5: A table needs one line with ids of runs, or with a filter.",
        ),
        ("```table\ncolumns: nme\nfilter: created > -7d\n```", "Line 4: nme is no field"),
        ("```spec-diff\nruns: a\n```", "Line 4: A spec-diff has two runs, not 1."),
        ("```compare\nruns: " + ", ".join(map(str, range(21))) + "\n```", "Line 4: runs has at most 20 names, not 21."),
        ("```table\nfilter: created > -7d\ncolumns: user\n```", "Line 5: A report keeps no names of people"),
        ("{{ run/a loss avg }}", "is no number: write run/ID, a metric, and last, min, max, mean or best."),
    ],
)
def test_a_block_that_cannot_be_read_says_which_line_and_the_rest_is_drawn(
    block: str, sentence: str, cast: Cast
) -> None:
    trained(cast)
    drawn = text_of(cast, f"Before.\n\n{block}\n\nBehind.")
    assert sentence in drawn and "Before." in drawn and "Behind." in drawn


def test_a_run_that_the_reader_may_not_see_is_named_nowhere(cast: Cast) -> None:
    run, own = elsewhere(cast), trained(cast)
    body = f"```chart\nmetrics: val/loss\nruns: {run.pk}, {own.pk}\n```\n\n{{{{ run/{run.pk} val/loss min }}}}"
    drawn = text_of(cast, body)
    assert drawn.count("a run that you may not see") == 2 and "secret-run" not in drawn and "first" in drawn
    assert "secret-run" not in text_of(cast, "```table\nfilter: created > -7d\n```")
    assert "No run fits" not in text_of(cast, f"```compare\nruns: {run.pk}\n```")


def pinned(cast: Cast, body: str) -> Report:
    now = Shown(cast.mate, cast.project)
    now.draw(body)
    return actions.create_report(actor=cast.mate, project=cast.project, title="Kept", body=body, pinned=now.found)


def shown_to(report: Report, cast: Cast) -> str:
    return render_report(report, report.versions.get(), cast.viewer)


def test_pinned_numbers_never_change(cast: Cast) -> None:
    run = trained(cast)
    body = f"{{{{ run/{run.pk} val/loss min }}}}\n\n```chart\nmetrics: val/loss\nruns: {run.pk}\n```"
    kept, live = pinned(cast, body), actions.create_report(actor=cast.mate, project=cast.project, title="L", body=body)
    before = shown_to(kept, cast)
    assert ">1</a>" in before and "Pinned" in before and "<figure" in before
    write_series(run, "val/loss", (0.5, float("nan")), first=4)
    assert shown_to(kept, cast) == before
    assert ">0.500</a>" in shown_to(live, cast) and "Pinned" not in shown_to(live, cast)
    run.delete()
    assert shown_to(kept, cast) == before


def test_of_a_pinned_run_nothing_is_shown_to_who_may_not_see_it(cast: Cast) -> None:
    run = trained(cast, "secret-run")
    report = pinned(cast, f"{{{{ run/{run.pk} val/loss min }}}}\n\n```table\nruns: {run.pk}\ncolumns: name\n```")
    assert "secret-run" in shown_to(report, cast)
    run.project = Project.objects.create(name="elsewhere")
    run.save()
    drawn = shown_to(report, cast)
    assert "secret-run" not in drawn and drawn.count("a run that you may not see") == 2


def test_values_that_are_no_numbers_are_pinned_too(cast: Cast) -> None:
    run = trained(cast, "first", 0.1, float("nan"), float("inf"), 1.0)
    report = pinned(cast, f"```chart\nmetrics: val/loss\nruns: {run.pk}\n```")
    assert "<figure" in shown_to(report, cast)


def test_a_report_has_no_blocks_without_end(cast: Cast) -> None:
    run = trained(cast)
    body = " ".join(f"{{{{ run/{run.pk} x{at} min }}}}" for at in range(102))
    assert text_of(cast, body).count("at most 100 blocks") == 2


def test_each_snippet_of_the_page_about_reports_is_drawn(cast: Cast) -> None:
    run, other = trained(cast, "first", 0.1), trained(cast, "second", 0.2)
    run.status = "SUCCEEDED"
    run.save()
    facts = {"step": 100, "time": 1.0, "attempt": 1, "cursor": 2, "size": 1, "data": b"x", "meta": {"format": "png"}}
    image = Media.objects.create(run_id=run.pk, name="samples", labels={}, labels_key="{}", kind="image", **facts)
    page = (Path(__file__).parents[4] / "docs/reports.md").read_text()
    snippets = re.findall(r"^````\n(.*?)^````$", page, re.MULTILINE | re.DOTALL)
    drawn = [text_of(cast, one.replace("ID, ID", f"{run.pk}, {other.pk}").replace("ID", run.pk)) for one in snippets]
    assert len(drawn) == 6
    for text, expected in zip(
        drawn,
        ("<figure", "<td>1</td>", "val/loss, last", "train.learning_rate", f"/media/{image.pk}/file", ">1</a>"),
        strict=True,
    ):
        assert expected in text and "report-problem" not in text and "is-amber" not in text
