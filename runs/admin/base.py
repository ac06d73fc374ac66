"""Two kinds of pages in the admin: rows that people edit, and rows that machines wrote."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from unfold.admin import ModelAdmin, TabularInline


class Editable(ModelAdmin):  # type: ignore[misc]  # unfold has no types
    """Rows that people made."""

    list_filter_submit = True
    show_full_result_count = False


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
