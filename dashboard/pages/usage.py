"""Use of slots by project, person, cluster or week, of the runs that a person sees: as a page and as CSV."""

from datetime import timedelta
from typing import get_args

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from dashboard.pages.runs.files import csv_text
from dashboard.pages.shared.frame import page, show
from runs.presenting.slot_usage import By, Used, usage_of
from runs.rights.access import Permission
from runs.rights.access.operations import lists

PERIODS = (7, 30, 90)  # days


@page(get=lists(Permission.RUNS_READ))
def usage(request: HttpRequest) -> HttpResponse:
    now, asked = timezone.now(), request.GET
    days = next((one for one in PERIODS if str(one) == asked.get("days")), 30)
    by: By = next((one for one in get_args(By) if one == asked.get("by")), "project")
    rows = usage_of(request.user, now - timedelta(days=days), now, by, now)
    if "csv" in asked:
        named = {"Content-Disposition": f'attachment; filename="usage-by-{by}-{days}-days.csv"'}
        headers = {**named, "Cache-Control": "no-store"}
        return HttpResponse(csv_text([by, *Used._fields[1:]], rows), "text/csv; charset=utf-8", headers=headers)
    shown = [(one, one.slot_seconds / 3600, one.idle_seconds / 3600, one.energy_joules / 3.6e6) for one in rows]
    shares = {"rows": shown, "most": max((one.slot_seconds for one in rows), default=0)}
    chosen = {"days": days, "by": by, "periods": PERIODS, "choices": get_args(By)}
    return show(request, "usage/usage.html", {**shares, **chosen})
