"""Tags that every template may use: icons, numbers, times, statuses, progress, small charts, and the import map.

What stands in every row of a table is a tag and no included template: a page draws hundreds of them.
"""

import json

from django import template
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.utils.html import escape, format_html_join
from django.utils.safestring import SafeString, mark_safe

from dashboard.frontend import icons
from dashboard.frontend.bundles import PACKAGES, script
from dashboard.pages.shared import drawn, numbers
from trainyard.contract.answers.runs import Lamp

register = template.Library()

for tag in (drawn.address, drawn.age, drawn.status, drawn.progress, drawn.sparkline, icons.icon):
    register.simple_tag(tag)
for name in ("number", "count", "size", "speed", "percent", "seconds", "duration", "metric", "setting", "clock"):
    register.filter(name, getattr(numbers, name))


@register.simple_tag
def lamp(lamp: Lamp) -> SafeString:
    """A coloured dot with its name; the sentence is read aloud and shown on hover."""
    name, sentence = escape(lamp["name"]), escape(lamp["sentence"])
    return mark_safe(
        f'<span class="lamp is-{lamp["colour"]}" title="{sentence}">{name}'
        f'<span class="visually-hidden">: {sentence}</span></span>'
    )


@register.simple_tag
def import_map() -> SafeString:
    imports = {name: static(path) for name, path in PACKAGES.items()}
    return mark_safe(json.dumps({"imports": imports}).replace("<", "\\u003c"))


@register.simple_tag
def preload(name: str) -> SafeString:
    """Links to a script that the page's start would import later, and to the packages that it needs: fetched at once,
    and behind the styles, without which nothing is painted."""
    links = ((static(path),) for path in [f"js/{name}", *(path for path in script(name) if path in PACKAGES.values())])
    return format_html_join("\n  ", '<link rel="modulepreload" href="{}" fetchpriority="low">', links)


@register.simple_block_tag(end_name="endempty_state")
def empty_state(content: str, icon: str, url: str = "", label: str = "", command: str = "") -> SafeString:
    """Return the box of an empty list or page: a sentence, one button, and the command that does the same."""
    context = {"icon_name": icon, "sentence": _one_line(content), "url": url, "label": label, "command": command}
    return render_to_string("components/_empty.html", context)


@register.simple_block_tag(end_name="endfield")
def field(
    content: str,
    name: str,
    label: str,
    value: str | None = "",
    problem: str | None = "",
    type: str = "text",
    autocomplete: str = "",
    required: bool = False,
) -> SafeString:
    """A text field of a form with its label, and a password must be filled in; the content is the help beside it, which
    a problem replaces."""
    context = {
        "name": name, "label": label, "value": value, "help": _one_line(content), "problem": problem, "type": type,
        "autocomplete": autocomplete, "required": required or type == "password",
    }  # fmt: skip
    return render_to_string("components/_field.html", context)


def _one_line(content: str) -> SafeString:
    """Return what the template's engine made of the content, which is escaped already, without its line breaks."""
    return mark_safe(" ".join(content.split()))
