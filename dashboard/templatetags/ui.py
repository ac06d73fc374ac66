"""Tags that every template may use: icons, numbers, times, and the import map."""

from __future__ import annotations

import json
from datetime import datetime

from django import template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from dashboard.frontend import icons
from dashboard.frontend.scripts import PACKAGES, script
from dashboard.pages.shared import numbers

register = template.Library()
START = "app.js"

register.filter("number", numbers.number)
register.filter("count", numbers.count)
register.filter("size", numbers.size)
register.filter("duration", numbers.duration)
register.filter("metric", numbers.metric)


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
    imports = {name: static(path) for name, path in PACKAGES.items()}
    return mark_safe(json.dumps({"imports": imports}).replace("<", "\\u003c"))


@register.simple_tag
def preload(name: str) -> SafeString:
    """Links to all modules of a script; what the page's start has already is not named twice."""
    there = () if name == START else script(START)
    links = ((static(path),) for path in script(name) if path not in there)
    return format_html_join("\n  ", '<link rel="modulepreload" href="{}">', links)
