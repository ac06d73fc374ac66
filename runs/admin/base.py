"""Two kinds of pages in the admin: rows that people edit, and rows that machines wrote."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from unfold.admin import ModelAdmin, TabularInline

from runs.actions import void_handed_out


class Editable(ModelAdmin):  # type: ignore[misc]  # unfold has no types
    """Rows that people made."""

    list_filter_submit = True
    show_full_result_count = False


class Granting:
    """Rows that say what people may: whoever may less by a change loses what they handed out with it."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)  # type: ignore[misc]
        void_handed_out()

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        super().delete_model(request, obj)  # type: ignore[misc]
        void_handed_out()

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        super().delete_queryset(request, queryset)  # type: ignore[misc]
        void_handed_out()


class Written(ModelAdmin):  # type: ignore[misc]  # unfold has no types
    """Rows that only the product writes: they are looked at, not touched."""

    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class WrittenInline(TabularInline):  # type: ignore[misc]  # unfold has no types
    """Rows of a Written page's thing."""

    extra = 0
    can_delete = False
    show_change_link = True

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
