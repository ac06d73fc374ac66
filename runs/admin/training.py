"""Jobs, code, runs and their history. Runs are changed by their verbs on the site, never by hand in their rows."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from runs.admin.base import OfRuns, WrittenAdmin, WrittenInline, inline, written
from runs.models import Attempt, Placement, Run
from runs.models.indexes import one_of
from runs.models.runs import choices
from runs.values.status import Status

OF_ATTEMPT = ("number", "fence", "world_size", "created_at", "go_at", "ended_at", "reason_sentence")
OF_PLACEMENT = ("node", "node_rank", "first_rank", "num_ranks", "phase", "reported_at")


class StatusFilter(admin.SimpleListFilter):
    """Filter by status along the list's own order: a database would rather sort all that have it."""

    title = "status"
    parameter_name = "status__exact"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return choices(Status)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Run]) -> QuerySet[Run]:
        status = self.value()
        return queryset.filter(one_of("status", [status])) if status else queryset


written(
    Run, "name id project cluster status reason_sentence created_by created_at", base=OfRuns, search="name id",
    related="project cluster created_by", list_filter=(StatusFilter, "project", "cluster", "created_at"),
    run_field="pk", inlines=(inline(Attempt, WrittenInline, fields=OF_ATTEMPT),),
)  # fmt: skip
written(
    Attempt, "run number fence world_size created_at ended_at reason_code", base=OfRuns, search="run__name run__id",
    related="run", ordering="-created_at -id", inlines=(inline(Placement, WrittenInline, fields=OF_PLACEMENT),),
)  # fmt: skip


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
