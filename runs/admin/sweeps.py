"""Searches for better parameters: looked at here, changed on their pages."""

from __future__ import annotations

from django.contrib import admin

from runs.admin.base import Written
from runs.models import Sweep, Trial, TrialReport, TrialRun


@admin.register(Sweep)
class SweepAdmin(Written):
    list_display = ("name", "id", "project", "status", "created_by", "created_at", "ended_at")
    list_filter = ("status", "project")
    list_select_related = ("project", "created_by")
    search_fields = ("name", "id")


@admin.register(Trial)
class TrialAdmin(Written):
    list_display = ("number", "sweep", "state", "value", "run", "steps", "started_at", "ended_at")
    list_filter = ("state",)
    list_select_related = ("sweep", "run")
    search_fields = ("sweep__name", "sweep__id", "run__id")


@admin.register(TrialRun)
class TrialRunAdmin(Written):
    list_display = ("trial", "seed", "run")
    list_select_related = ("trial", "run")
    search_fields = ("trial__sweep__name", "run__id")


@admin.register(TrialReport)
class TrialReportAdmin(Written):
    list_display = ("trial", "step", "value")
    list_select_related = ("trial",)
    search_fields = ("trial__sweep__name",)
