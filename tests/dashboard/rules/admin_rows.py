"""A row for each page of the administration that is about one."""

from __future__ import annotations

import re

from django.apps import apps

from tests.dashboard.rules.matrix import Route

_TABLE = re.compile(r"/admin/(\w+)/(\w+)/<")
NO_ROW = "1"


def row_of(route: Route) -> str | None:
    """Return the key of the table's first row; None where the page is about none, or the table is empty."""
    found = _TABLE.match(route.path)
    if found is None:
        return None
    model = apps.get_model(found[1], found[2])
    key = model._default_manager.order_by("pk").values_list("pk", flat=True).first()
    return None if key is None else str(key)


def is_about_a_row(route: Route) -> bool:
    return _TABLE.match(route.path) is not None
