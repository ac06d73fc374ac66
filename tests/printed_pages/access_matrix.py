"""``python -m tests.printed_pages.access_matrix`` prints docs/access_matrix.csv: every route with what becomes of a
request of each caller, as the rules and the table say."""

from __future__ import annotations

import csv
import io

from tests.printed_pages import django_is_ready

django_is_ready()

from tests.dashboard.rules.matrix import matrix  # noqa: E402


def documented() -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(matrix())
    return text.getvalue()


if __name__ == "__main__":
    print(documented(), end="")
