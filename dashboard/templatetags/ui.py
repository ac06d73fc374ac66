"""Tags that every template may use: icons, numbers, times, and the import map."""

from __future__ import annotations

import json
from datetime import datetime

from django import template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from dashboard import icons, numbers

register = template.Library()
# Bare names that our modules import, and the file of the npm package that each means.
MODULES = {"uplot": "npm/uplot/dist/uPlot.esm.js"}

register.filter("number", numbers.number)
register.filter("count", numbers.count)
register.filter("size", numbers.size)
register.filter("duration", numbers.duration)


@register.simple_tag
def icon(name: str) -> SafeString:
    return icons.icon(name)


@register.simple_tag
def age(at: datetime | str | None) -> SafeString:
    """A relative time with the exact one on hover; app.js keeps it current."""
    if not at:
        return mark_safe('<span class="faint">–</span>')
    moment = datetime.fromisoformat(at) if isinstance(at, str) else at
    exact = moment.astimezone(timezone.get_current_timezone())
    return format_html(
        '<time datetime="{}" title="{} UTC" data-age>{}</time>',
        moment.isoformat(),
        f"{exact:%d %b %Y, %H:%M:%S}",
        numbers.age(moment, timezone.now()),
    )


@register.simple_tag
def import_map() -> SafeString:
    imports = {name: static(path) for name, path in MODULES.items()}
    return mark_safe(json.dumps({"imports": imports}).replace("<", "\\u003c"))
