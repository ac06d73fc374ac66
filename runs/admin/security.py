"""The audit, secrets and personal data. Neither values of secrets nor the keys around them are shown."""

from django.contrib import admin

from runs.admin.base import WrittenAdmin
from runs.models import (
    AuditEntry,
    AuditHead,
    Consent,
    ErasedPerson,
    PersonalExport,
    RemovedData,
    Secret,
    SecretUse,
    SecretVersion,
    StorageKey,
    StoredData,
)
from runs.rights.audit.facts import canonical
from runs.rights.audit.pseudonyms import shown


@admin.register(AuditEntry)
class AuditEntryAdmin(WrittenAdmin):
    """Rows of the audit. The name of a person who was erased is in no column, and is not searched."""

    fields = ("sequence", "at", "who", "action", "what", "project", "values", "result", "repeats", "hash")
    readonly_fields = ("who", "what", "values")
    list_display = ("sequence", "at", "who", "action", "what", "project", "result")
    search_fields = ("action", "project")

    @admin.display(description="actor")
    def who(self, row: AuditEntry) -> str:
        (entry,) = shown([row])
        return f"{entry.actor or 'nobody'} {entry.address}"

    @admin.display(description="object")
    def what(self, row: AuditEntry) -> str:
        (entry,) = shown([row])
        return entry.object

    def values(self, row: AuditEntry) -> str:
        (entry,) = shown([row])
        return canonical({"before": entry.before, "after": entry.after})


@admin.register(AuditHead)
class AuditHeadAdmin(WrittenAdmin):
    list_display = ("sequence", "hash", "cut_sequence")
    exclude = ("seal",)
    search_fields = ("hash",)


@admin.register(Secret)
class SecretAdmin(WrittenAdmin):
    list_display = ("name", "project", "person", "version", "created_by", "changed_at", "used_at")
    list_filter = ("project",)
    list_select_related = ("project", "person", "created_by")
    search_fields = ("name", "project__name", "person__username")


@admin.register(SecretVersion)
class SecretVersionAdmin(WrittenAdmin):
    list_display = ("secret", "number", "created_by", "created_at")
    list_select_related = ("secret__project", "secret__person", "created_by")
    exclude = ("wrapped_key", "ciphertext")
    search_fields = ("secret__name",)


@admin.register(StorageKey)
class StorageKeyAdmin(WrittenAdmin):
    list_display = ("project", "number", "key_id", "created_at", "destroyed_at")
    list_select_related = ("project",)
    exclude = ("wrapped_key",)
    search_fields = ("project__name",)


@admin.register(SecretUse)
class SecretUseAdmin(WrittenAdmin):
    list_display = ("name", "version", "is_personal", "attempt", "node", "at")
    list_select_related = ("attempt__run",)
    search_fields = ("name", "node", "attempt__run__id")


# Rows about people's rights to their data, and about what projects store.


@admin.register(PersonalExport)
class PersonalExportAdmin(WrittenAdmin):
    list_display = ("user", "state", "size_bytes", "created_at", "expires_at")
    list_select_related = ("user",)
    search_fields = ("user__username",)


@admin.register(ErasedPerson)
class ErasedPersonAdmin(WrittenAdmin):
    list_display = ("number", "at")
    exclude = ("digest",)
    search_fields = ("number",)


@admin.register(Consent)
class ConsentAdmin(WrittenAdmin):
    list_display = ("user", "digest", "at")
    list_select_related = ("user",)
    search_fields = ("user__username", "digest")


@admin.register(StoredData)
class StoredDataAdmin(WrittenAdmin):
    list_display = ("project", "kind", "place", "region", "bytes", "number", "measured_at")
    list_select_related = ("project",)
    list_filter = ("kind", "region")
    search_fields = ("project__name", "place")


@admin.register(RemovedData)
class RemovedDataAdmin(WrittenAdmin):
    list_display = ("run", "kind", "at")
    list_select_related = ("run",)
    search_fields = ("run__id", "run__name")
