"""Texts of filters and orders as a person may write them: runs, or one sentence. Nothing else is raised, and nothing
stands still."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from hypothesis import strategies as st

from runs.api.paging import BadCursor, cursor_at, page
from runs.finding.language import FilterError
from runs.finding.queries import condition, order_of
from runs.models import Run
from tests.cast import Cast
from tests.fuzzing import fuzz

FIELDS = ["status", "name", "project", "user", "created", "ended", "tag", "train.learning_rate", "task.arguments.x.0",
          "config.a", "config.'", 'config."', "summary.val/loss.min", "summary.x.best", "nosuch"]  # fmt: skip
VALUES = ["FAILED", "live", "none", "-7d", "-9999w", "2026-01-31", "9999-12-31", "0001-01-01T00:00+23:59", "1e-3",
          "1e400", "-0", "9" * 400, '"a \\" b"', "'x'", "ü", "%s", "$", "\U0001f600", "true"]  # fmt: skip
SIGNS = ["=", "!=", "<", "<=", ">", ">=", "~", "in (", ")", "(", ",", "and", "or", "not", "!", '"', "'", "\\"]
texts = st.lists(st.sampled_from(FIELDS + VALUES + SIGNS) | st.text(max_size=6), max_size=24).map(" ".join)
comparisons = st.builds(
    "{} {} {}".format,
    st.sampled_from(FIELDS),
    st.sampled_from(SIGNS[:7]),
    st.sampled_from(VALUES) | st.text(max_size=9),
)


def test_no_text_of_a_filter_raises_more_than_a_filter_error(cast: Cast, make_run: Any) -> None:
    make_run()

    def check(text: str) -> None:
        try:
            list(Run.objects.filter(condition(text, timezone.now())).values_list("pk", flat=True))
        except FilterError as error:
            assert 0 <= error.position <= len(text) and error.message.endswith("."), error

    fuzz(texts | comparisons | st.text(max_size=300), check, "texts of filters")


def test_no_order_and_no_cursor_raises_more_than_its_error(cast: Cast, make_run: Any) -> None:
    make_run()
    values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just([])
    values |= st.sampled_from(["2026-01-31T00:00:00+00:00", "2026-01-31", 10**400])
    orders = st.sampled_from(FIELDS + [f"-{one}" for one in FIELDS]) | st.text(max_size=40)

    def check(example: tuple[str, Any, Any]) -> None:
        sort, value, key = example
        try:
            page(Run.objects.all(), list, sort=order_of(sort), cursor=cursor_at(value, key), limit=5)
        except (FilterError, BadCursor):
            return

    keys = st.sampled_from(["abc", "", 7, None]) | st.text(st.characters(exclude_characters="\0"), max_size=12)
    fuzz(st.tuples(orders, values, keys), check, "orders and cursors")
