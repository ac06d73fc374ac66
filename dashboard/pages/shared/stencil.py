"""Markup of rows that a page has by the hundred: a template is drawn once, with marks where a row's values go."""

import html
import re
from collections.abc import Sequence
from functools import cache
from itertools import chain, zip_longest

from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

MARK = "\x00"  # no text of ours holds it


class Stencil:
    """A template whose row is filled in. ``names`` are its values; what else it asks for is the same in every row."""

    def __init__(self, template: str, names: Sequence[str], **same: object) -> None:
        drawn = render_to_string(template, {**same, **{name: f"{MARK}{name}{MARK}" for name in names}}).strip()
        self._texts = re.split(f"{MARK}[a-z_]+{MARK}", drawn)
        self._names = re.findall(f"{MARK}([a-z_]+){MARK}", drawn)

    def fill(self, **values: str | int) -> SafeString:
        """Return the row's markup; what is not marked as safe is escaped."""
        escaped = {name: one if isinstance(one, SafeString) else html.escape(str(one)) for name, one in values.items()}
        shown = (escaped[name] for name in self._names)
        return mark_safe("".join(chain.from_iterable(zip_longest(self._texts, shown, fillvalue=""))))


@cache
def stencil(template: str, names: tuple[str, ...], **same: object) -> Stencil:
    """Return the template's stencil, made by whoever asks first. ``same`` has few different values."""
    return Stencil(template, names, **same)
