"""Rows about people's rights to their data, and about what projects store."""

from __future__ import annotations

from django.contrib import admin

from runs.admin.base import Written
from runs.models import Consent, ErasedPerson, PersonalExport, RemovedData, StoredData


@admin.register(PersonalExport)
class PersonalExportAdmin(Written):
    list_display = ("user", "state", "size_bytes", "created_at", "expires_at")
    list_select_related = ("user",)
    search_fields = ("user__username",)


@admin.register(ErasedPerson)
class ErasedPersonAdmin(Written):
    list_display = ("number", "at")
    exclude = ("digest",)
    search_fields = ("number",)


@admin.register(Consent)
class ConsentAdmin(Written):
    list_display = ("user", "digest", "at")
    list_select_related = ("user",)
    search_fields = ("user__username", "digest")


@admin.register(StoredData)
class StoredDataAdmin(Written):
    list_display = ("project", "kind", "place", "region", "bytes", "number", "measured_at")
    list_select_related = ("project",)
    list_filter = ("kind", "region")
    search_fields = ("project__name", "place")


@admin.register(RemovedData)
class RemovedDataAdmin(Written):
    list_display = ("run", "kind", "at")
    list_select_related = ("run",)
    search_fields = ("run__id", "run__name")
