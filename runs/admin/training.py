"""Jobs, code, runs and their history. Runs are changed by their verbs on the site, never by hand in their rows."""

from __future__ import annotations

from django.contrib import admin

from runs.admin.base import Written, WrittenInline
from runs.admin.columns import size_of
from runs.models import Attempt, CodeBundle, Dataset, Event, GoneRun, Job, Placement, Run


class AttemptInline(WrittenInline):
    model = Attempt
    fields = ("number", "fence", "world_size", "created_at", "go_at", "ended_at", "reason_sentence")


class PlacementInline(WrittenInline):
    model = Placement
    fields = ("node", "node_rank", "first_rank", "num_ranks", "phase", "reported_at")


@admin.register(Run)
class RunAdmin(Written):
    list_display = ("name", "id", "project", "cluster", "status", "reason_sentence", "created_by", "created_at")
    list_filter = ("status", "project", "cluster")
    search_fields = ("name", "id")
    date_hierarchy = "created_at"
    list_select_related = ("project", "cluster", "created_by")
    inlines = (AttemptInline,)


@admin.register(Attempt)
class AttemptAdmin(Written):
    list_display = ("run", "number", "fence", "world_size", "created_at", "ended_at", "reason_code")
    search_fields = ("run__name", "run__id", "id")
    list_select_related = ("run",)
    inlines = (PlacementInline,)


@admin.register(Placement)
class PlacementAdmin(Written):
    list_display = ("attempt", "node", "node_rank", "num_ranks", "phase", "reported_at")
    list_filter = ("phase", "node")
    list_select_related = ("attempt__run", "node")


@admin.register(GoneRun)
class GoneRunAdmin(Written):
    list_display = ("id", "at")
    search_fields = ("id",)


@admin.register(Event)
class EventAdmin(Written):
    list_display = ("at", "run", "code", "sentence", "actor")
    list_filter = ("code",)
    search_fields = ("run__id", "run__name", "sentence")
    list_select_related = ("run", "actor")


@admin.register(Job)
class JobAdmin(Written):
    list_display = ("name", "version", "project", "created_by", "created_at")
    list_filter = ("project",)
    list_select_related = ("project", "created_by")
    search_fields = ("name", "id")


@admin.register(CodeBundle)
class CodeBundleAdmin(Written):
    list_display = ("sha256", "project", size_of("size_bytes"), "created_by", "created_at")
    list_filter = ("project",)
    list_select_related = ("project", "created_by")
    search_fields = ("sha256",)


@admin.register(Dataset)
class DatasetAdmin(Written):
    list_display = ("name", "project", "cluster", "source", "state", size_of("size_bytes"), "checked_by", "checked_at")
    list_filter = ("state", "source", "project")
    list_select_related = ("project", "cluster", "checked_by")
    search_fields = ("name", "id", "location")
