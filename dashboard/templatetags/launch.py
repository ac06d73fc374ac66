"""The tag of the launch form, and the markup of its fields."""

from collections.abc import Sequence
from functools import cache
from html import escape

from django import template
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from dashboard.pages.launch.spec_form import Control, Option, empty_control
from dashboard.pages.shared.stencil import Stencil

register = template.Library()


# The markup of the form's fields. There are some two hundred, and most look alike for everybody but for what is
# typed: these are drawn once, and what is typed is filled in.

TEMPLATE = "launch/_control.html"
FILLED = ("text", "number", "lines")  # widgets whose value is a text in their markup
WITH_UPLOADS = ("task.code", "task.script")  # fields that show what was uploaded


@register.simple_tag(name="form_field")
def field_markup(control: Control, scripts: Sequence[str]) -> SafeString:
    """``scripts`` are the Python files of the chosen code."""
    path = control.info.path
    if control.problem or path in WITH_UPLOADS:
        return _draw(control, scripts)
    if control.widget in FILLED:
        return _stencil(path, control.is_hidden).fill(value=control.value)
    if control.widget == "checkbox":
        return _chosen(path, "on" if control.value else "", control.is_hidden)
    if control.widget == "select" and control.value in control.info.choices:
        return _chosen(path, control.value, control.is_hidden)
    return _draw(control)


def _draw(control: Control, scripts: Sequence[str] = ()) -> SafeString:
    # No template for each choice of a list: there may be hundreds of datasets.
    options = SafeString("".join(_option(one, is_chosen=one.value == control.value) for one in control.options))
    context = {"control": control, "value": control.value, "options": options, "scripts": scripts}
    return render_to_string(TEMPLATE, context)


def _option(option: Option, *, is_chosen: bool) -> str:
    tasks = f' data-tasks="{escape(option.tasks)}"' if option.tasks else ""
    projects = f' data-projects="{escape(option.projects)}"' if option.projects else ""
    chosen = " selected" if is_chosen else ""
    return f'<option value="{escape(option.value)}"{tasks}{projects}{chosen}>{escape(option.label)}</option>'


@cache
def _stencil(path: str, is_hidden: bool) -> Stencil:
    return Stencil(TEMPLATE, ("value",), control=empty_control(path)._replace(is_hidden=is_hidden))


@cache
def _chosen(path: str, value: str, is_hidden: bool) -> SafeString:
    """``value`` is one of the few that the field can have."""
    return _draw(empty_control(path)._replace(value=value, is_hidden=is_hidden))
