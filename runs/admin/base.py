"""Two kinds of pages in the admin: rows that people edit, and rows that machines wrote; and their columns."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import Model, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from unfold.admin import ModelAdmin, TabularInline

from runs.actions import void_handed_out
from runs.finding.queries import holds
from runs.models import Run, User
from runs.rights.access import is_present
from trainyard.formats.figures import Value, seconds, size

MAX_FOUND = 1_000  # runs, the newest, whose rows a search shows
ROWS = 25  # on a page: drawing one costs about 0.7 ms


class Asking:
    """Rows that are not changed by whoever finds a browser that somebody left: see runs.rights.access.rechecking."""

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return proof_first(request) or super().changeform_view(request, *args, **kwargs)  # type: ignore[misc]


def proof_first(request: HttpRequest) -> HttpResponse | None:
    """Return where a person who changes something shows again who they are; None where they have."""
    assert isinstance(request.user, User)
    if request.method != "POST" or is_present(request.user):
        return None
    return redirect(f"{reverse('second-factor-step')}?{urlencode({'next': request.path})}")


class Editable(Asking, ModelAdmin):  # type: ignore[misc]  # unfold has no types
    """Rows that people made."""

    list_per_page = ROWS
    list_filter_submit = True
    show_full_result_count = False


class Granting(Asking):
    """Rows with people's rights: when a change takes rights away, invitations and tokens that rest on them go."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)  # type: ignore[misc]
        void_handed_out()

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        super().delete_model(request, obj)  # type: ignore[misc]
        void_handed_out()

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        super().delete_queryset(request, queryset)  # type: ignore[misc]
        void_handed_out()


class Untouched:
    """Rows that only the product writes: they are looked at."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class WrittenAdmin(Untouched, ModelAdmin):  # type: ignore[misc]  # unfold has no types
    list_per_page = ROWS
    show_full_result_count = False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_administrator_permission(self, request: HttpRequest) -> bool:
        return bool(getattr(request.user, "is_superuser", False))


class OfRuns(WrittenAdmin):
    """Rows that belong to runs, of which there may be very many: words are looked for among the runs."""

    search_help_text = "Words of a run's name or tags, or the beginning of its id."
    run_field = "run"

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> Any:
        words = search_term.strip()
        if not words:
            return queryset, False
        found = Run.objects.filter(holds(words) | Q(pk__startswith=words)).values_list("pk", flat=True)
        return queryset.filter(**{f"{self.run_field}__in": list(found[:MAX_FOUND])}), False


class WrittenInline(Untouched, TabularInline):  # type: ignore[misc]  # unfold has no types
    can_delete = False
    show_change_link = True

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields


def inline(model: type[Model], base: type[TabularInline] = TabularInline, **options: Any) -> Any:
    """Return the rows of the model as a table on the page of another one."""
    return type(f"{model.__name__}Inline", (base,), {"model": model, "extra": 0, **options})


# Columns whose values have a unit: written as on the pages, and ordered by what lies in the database.


def written(
    model: type[Model],
    columns: str,
    *,
    base: type[ModelAdmin] = WrittenAdmin,
    search: str = "",
    filters: str = "",
    related: str = "",
    hidden: str = "",
    ordering: str = "",
    sizes: str = "",
    times: dict[str, str] | None = None,
    **more: Any,
) -> None:
    """Register a table, by default one that only the product writes; ``sizes`` are columns of bytes, ``times`` the
    headings of columns of seconds, ``hidden`` fields on no page, ``more`` what else Django's classes of tables have."""
    drawn = {name: _column(name, "size", size) for name in sizes.split()}
    drawn |= {name: _column(name, heading, seconds) for name, heading in (times or {}).items()}
    options = {
        "list_display": tuple(drawn.get(name, name) for name in columns.split()),
        "search_fields": tuple(search.split()),
        "list_filter": tuple(filters.split()),
        "list_select_related": tuple(related.split()) or False,
        "exclude": tuple(hidden.split()) or None,
        "ordering": tuple(ordering.split()) or None,
    }
    admin.register(model)(type(f"{model.__name__}Admin", (base,), options | more))


def _column(field: str, heading: str, write: Callable[[Value], str]) -> Callable[[Any], str]:
    @admin.display(description=heading, ordering=field)
    def read(row: Any) -> str:
        return write(getattr(row, field))

    return read
