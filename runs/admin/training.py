"""Jobs, code, runs and their history. Runs are changed by their verbs on the site, never by hand in their rows."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from runs.admin.base import OfRuns, WrittenAdmin, WrittenInline, size_of, time_of
from runs.models import (
    Attempt,
    CodeBundle,
    Dataset,
    Event,
    GitKey,
    GoneRun,
    Job,
    Placement,
    Run,
    RunCode,
    RunNumber,
    RunTime,
    Sweep,
    Trial,
    TrialReport,
    TrialRun,
)
from runs.models.indexes import one_of
from runs.models.runs import choices
from runs.values.status import Status


class AttemptInline(WrittenInline):
    model = Attempt
    fields = ("number", "fence", "world_size", "created_at", "go_at", "ended_at", "reason_sentence")


class PlacementInline(WrittenInline):
    model = Placement
    fields = ("node", "node_rank", "first_rank", "num_ranks", "phase", "reported_at")


class StatusFilter(admin.SimpleListFilter):
    """Filter by status along the list's own order: a database would rather sort all that have it."""

    title = "status"
    parameter_name = "status__exact"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return choices(Status)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Run]) -> QuerySet[Run]:
        status = self.value()
        return queryset.filter(one_of("status", [status])) if status else queryset


@admin.register(Run)
class RunAdmin(OfRuns):
    run_field = "pk"
    list_display = ("name", "id", "project", "cluster", "status", "reason_sentence", "created_by", "created_at")
    list_filter = (StatusFilter, "project", "cluster", "created_at")
    search_fields = ("name", "id")
    list_select_related = ("project", "cluster", "created_by")
    inlines = (AttemptInline,)


@admin.register(Attempt)
class AttemptAdmin(OfRuns):
    ordering = ("-created_at", "-id")
    list_display = ("run", "number", "fence", "world_size", "created_at", "ended_at", "reason_code")
    search_fields = ("run__name", "run__id")
    list_select_related = ("run",)
    inlines = (PlacementInline,)


@admin.register(Placement)
class PlacementAdmin(WrittenAdmin):
    ordering = ("-id",)
    list_display = ("attempt", "node", "node_rank", "num_ranks", "phase", "reported_at")
    list_filter = ("phase", "node")
    list_select_related = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Placement]:
        """Fetch what belongs to the rows of a page apart: in a join SQLite begins with the nodes, and sorts."""
        found: QuerySet[Placement] = super().get_queryset(request)
        return found.prefetch_related("attempt__run", "node")


@admin.register(RunTime)
class RunTimeAdmin(OfRuns):
    ordering = ("-run_id",)
    list_display = (
        "run",
        "ended_at",
        time_of("queued_s", "queued"),
        time_of("productive_s", "productive"),
        time_of("recomputed_s", "trained again"),
        time_of("restart_s", "restarts"),
    )
    search_fields = ("run__id", "run__name")
    list_select_related = ("run",)


@admin.register(GoneRun)
class GoneRunAdmin(WrittenAdmin):
    list_display = ("id", "at")
    search_fields = ("id",)


@admin.register(RunNumber)
class RunNumberAdmin(WrittenAdmin):
    list_display = ("id",)


@admin.register(Event)
class EventAdmin(OfRuns):
    ordering = ("-id",)
    list_display = ("at", "run", "code", "sentence", "actor")
    list_filter = ("code",)
    search_fields = ("run__id", "run__name")
    list_select_related = ("run", "actor")


@admin.register(Job)
class JobAdmin(WrittenAdmin):
    list_display = ("name", "version", "project", "created_by", "created_at")
    list_filter = ("project",)
    list_select_related = ("project", "created_by")
    search_fields = ("name", "id")


@admin.register(CodeBundle)
class CodeBundleAdmin(WrittenAdmin):
    list_display = ("sha256", "project", size_of("size_bytes"), "created_by", "created_at")
    list_filter = ("project",)
    list_select_related = ("project", "created_by")
    search_fields = ("sha256",)


@admin.register(RunCode)
class RunCodeAdmin(OfRuns):
    ordering = ("-run_id",)
    list_display = ("run", "url", "commit", "branch", "subject")
    search_fields = ("run__id", "commit")
    list_select_related = ("run",)


@admin.register(GitKey)
class GitKeyAdmin(WrittenAdmin):
    list_display = ("place", "kind", "project", "created_by", "created_at", "used_at")
    list_filter = ("kind", "project")
    list_select_related = ("project", "created_by")
    search_fields = ("place",)


@admin.register(Dataset)
class DatasetAdmin(WrittenAdmin):
    list_display = ("name", "project", "cluster", "source", "state", size_of("size_bytes"), "checked_by", "checked_at")
    list_filter = ("state", "source", "project")
    list_select_related = ("project", "cluster", "checked_by")
    search_fields = ("name", "id", "location")


# Searches for better parameters: looked at here, changed on their pages.


@admin.register(Sweep)
class SweepAdmin(WrittenAdmin):
    list_display = ("name", "id", "project", "status", "created_by", "created_at", "ended_at")
    list_filter = ("status", "project")
    list_select_related = ("project", "created_by")
    search_fields = ("name", "id")


@admin.register(Trial)
class TrialAdmin(WrittenAdmin):
    list_display = ("number", "sweep", "state", "value", "run", "steps", "started_at", "ended_at")
    list_filter = ("state",)
    list_select_related = ("sweep", "run")
    search_fields = ("sweep__name", "sweep__id", "run__id")


@admin.register(TrialRun)
class TrialRunAdmin(WrittenAdmin):
    list_display = ("trial", "seed", "run")
    list_select_related = ("trial", "run")
    search_fields = ("trial__sweep__name", "run__id")


@admin.register(TrialReport)
class TrialReportAdmin(WrittenAdmin):
    list_display = ("trial", "step", "value")
    list_select_related = ("trial",)
    search_fields = ("trial__sweep__name",)
