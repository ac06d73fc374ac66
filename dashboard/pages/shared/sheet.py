"""Tables of things that have a few kinds of columns, such as jobs and trials, in the grid that the runs are in too."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse

from dashboard.pages.shared import grid
from dashboard.pages.shared.frame import show

T = TypeVar("T")
Keys = QuerySet[Any, str] | Sequence[str]  # of all rows, in their order
Rows = Callable[[Sequence[str]], list[tuple[grid.GridRow, T]]]  # by their keys; the cells of a row are made of T


class Kind(NamedTuple, Generic[T]):
    """A column: what draws its cells, and the field that the rows are sorted by; without one they are not."""

    label: str
    width: int
    draw: Callable[[T], str]
    sort: str = ""
    is_number: bool = False
    phone: str = "off"


class Sheet(Generic[T]):
    """A table as the address asks for it: its columns, order and density. The column ``name`` is always there."""

    def __init__(
        self,
        request: HttpRequest,
        label: str,
        noun: str,
        kinds: Mapping[str, Kind[T]],
        first: grid.Sort,
        *,
        kept: Mapping[str, str | Sequence[str]] | None = None,
        has_boxes: bool = False,
    ) -> None:
        """``noun`` names one row, ``first`` is the order that nobody asked for, and ``kept`` has what else the address
        says."""
        self.request, self.label, self.noun, self.kinds, self.has_boxes = request, label, noun, kinds, has_boxes
        asked = {name: request.GET.get(name, "").strip()[:1000] for name in ("q", "columns", "sort", "density")}
        chosen = {one.name: one for one in grid.read_columns(asked["columns"]) if one.name in kinds}
        named = chosen or {name: grid.Chosen(name) for name in kinds}
        self._chosen = [named.pop("name", grid.Chosen("name"))._replace(is_pinned=True), *named.values()]
        self._chosen.sort(key=lambda one: not one.is_pinned)
        sorts = grid.read_sorts(asked["sort"])
        self.sorts = [one for one in sorts if one.name in kinds and kinds[one.name].sort] or [first]
        self._density = asked["density"] if asked["density"] in grid.ROW else ""
        self.words = asked["q"][:200]  # of the filter
        self._query: dict[str, str | Sequence[str]] = {
            **(kept or {}), **asked, "q": self.words, "density": self._density
        }  # fmt: skip

    @property
    def order(self) -> list[str]:
        """The fields that the rows are sorted by, with ``-`` in front where the largest is first."""
        return [f"{'-' if one.is_descending else ''}{self.kinds[one.name].sort}" for one in self.sorts]

    def url(self, **changes: str | Sequence[str]) -> str:
        """The address that shows the same with these changes."""
        return f"?{urlencode({k: v for k, v in {**self._query, **changes}.items() if v}, doseq=True, safe=',/@!')}"

    def rows_answer(self, keys: Keys, rows_of: Rows[T]) -> HttpResponse | None:
        """Answer what the table's script asks for: names of columns, or rows; None for the whole page."""
        query = self.request.GET
        if query.get("fragment") == "names":
            return JsonResponse({"names": [{"name": name, "kind": "column"} for name in self.kinds], "values": {}})
        if query.get("fragment") != "rows":
            return None
        first = grid.place_of(query.get("offset", ""))
        if ids := query.get("ids", ""):
            asked = ids.split(".")[: grid.MOST_AT_ONCE]
            wanted = list(keys.filter(pk__in=asked) if isinstance(keys, QuerySet) else {*asked} & {*keys})
        else:
            wanted = list(keys[first : first + grid.limit_of(query)])
        answer = HttpResponse(self._draw(rows_of(wanted), first))
        if query.get("count"):
            answer["X-Rows"] = str(_count(keys))
        answer["Cache-Control"] = "no-store"
        return answer

    def context(self, keys: Keys, rows_of: Rows[T]) -> dict[str, object]:
        """Return what ``components/_grid.html`` draws, with the first rows."""
        number = _count(keys)
        rows = rows_of(list(keys[: grid.WINDOW])) if number else []
        columns, before = self._columns(), 1 if self.has_boxes else 0
        density = self._density or next(iter(grid.ROW))
        return {
            "grid_label": self.label,
            "noun": self.noun,
            "q": self.words,
            "has_boxes": self.has_boxes,
            "heads": grid.heads_of(columns, self.sorts, lambda sort: self.url(sort=sort), first=before + 1),
            "num_columns": len(columns) + before + 1,
            "rows": self._draw(rows, 0),
            "num_rows": number,
            "num_below": max(0, number - len(rows)),
            "density": density,
            "row_height": grid.ROW[density],
            "density_urls": [(one, self.url(density=one)) for one in grid.ROW],
            "rows_url": self.url(fragment="rows"),
            "names_url": self.url(fragment="names", sort="", columns=""),
            "others": [(name, value) for name, value in self._query.items() if value and name != "q"],
        }

    def show(self, template: str, keys: Keys, rows_of: Rows[T], context: Mapping[str, object]) -> HttpResponse:
        """Answer with the page, or with that part of the table which its script asks for."""
        part = self.rows_answer(keys, rows_of)
        if part is not None:
            return part
        return show(self.request, template, {**self.context(keys, rows_of), **context})

    def _columns(self) -> list[grid.Column]:
        made = []
        for one in self._chosen:
            kind = self.kinds[one.name]
            can = " ".join(["sort"] * bool(kind.sort) + ["move"] * (one.name != "name") + ["size"])
            looks = (kind.is_number, one.is_pinned, bool(kind.sort), kind.phone, one.name == "name" and not one.width)
            made.append(grid.Column(one.name, kind.label, kind.label, one.width or kind.width, *looks, can, one.width))
        return made

    def _draw(self, rows: Sequence[tuple[grid.GridRow, T]], first: int) -> str:
        draws = [self.kinds[one.name].draw for one in self._chosen]
        whole = [row._replace(cells=[draw(one) for draw in draws]) for row, one in rows]
        return grid.draw_rows(self._columns(), whole, first, has_boxes=self.has_boxes)


def _count(keys: Keys) -> int:
    return keys.count() if isinstance(keys, QuerySet) else len(keys)
