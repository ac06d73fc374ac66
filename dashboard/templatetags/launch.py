"""The tag of the launch form."""

from __future__ import annotations

from collections.abc import Sequence

from django import template
from django.utils.safestring import SafeString

from dashboard.pages.launch import field_markup
from dashboard.pages.launch.spec_form import Control

register = template.Library()


@register.simple_tag
def form_field(control: Control, scripts: Sequence[str]) -> SafeString:
    return field_markup.field_markup(control, scripts)
