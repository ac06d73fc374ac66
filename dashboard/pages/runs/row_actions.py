"""The buttons at the end of a row in the table of runs.

Runs that offer the same buttons differ by id and name alone, so the buttons are drawn once and then filled in.
"""

from __future__ import annotations

from functools import cache

from django.template.loader import render_to_string
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from dashboard.pages.shared.run_offers import Offers, offers_of
from runs.models import Run

ID, NAME = "RUN-ID", "RUN-NAME"


def row_actions(run: Run) -> SafeString:
    drawn = _drawn(offers_of(run))
    return mark_safe(drawn.replace(ID, run.pk).replace(NAME, escape(run.name)))  # the name last: it may hold any text


@cache
def _drawn(offers: Offers) -> str:
    return render_to_string("runs/_row_actions.html", {"offers": offers, "run_id": ID, "name": NAME})
