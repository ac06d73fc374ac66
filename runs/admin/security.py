"""The audit and secrets. Neither values of secrets nor the keys around them are shown."""

from __future__ import annotations

from django.contrib import admin

from runs.admin.base import Written
from runs.models import AuditEntry, AuditHead, Secret, SecretUse, SecretVersion


@admin.register(AuditEntry)
class AuditEntryAdmin(Written):
    list_display = ("sequence", "at", "actor", "action", "object", "project", "result", "address")
    search_fields = ("actor", "action", "object", "project")


@admin.register(AuditHead)
class AuditHeadAdmin(Written):
    list_display = ("sequence", "hash", "cut_sequence")
    exclude = ("seal",)
    search_fields = ("hash",)


@admin.register(Secret)
class SecretAdmin(Written):
    list_display = ("name", "project", "person", "version", "created_by", "changed_at", "used_at")
    list_filter = ("project",)
    list_select_related = ("project", "person", "created_by")
    search_fields = ("name", "project__name", "person__username")


@admin.register(SecretVersion)
class SecretVersionAdmin(Written):
    list_display = ("secret", "number", "created_by", "created_at")
    list_select_related = ("secret__project", "secret__person", "created_by")
    exclude = ("wrapped_key", "ciphertext")
    search_fields = ("secret__name",)


@admin.register(SecretUse)
class SecretUseAdmin(Written):
    list_display = ("name", "version", "is_personal", "attempt", "node", "at")
    list_select_related = ("attempt__run",)
    search_fields = ("name", "node", "attempt__run__id")
