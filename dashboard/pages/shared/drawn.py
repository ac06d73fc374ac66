"""Markup of what stands in many rows: times, statuses, progress and small charts. No templates: a page draws hundreds.
The tags of ``ui`` are these."""

from datetime import UTC, datetime
from functools import cache

from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from dashboard.frontend import icons
from dashboard.pages.shared import numbers
from dashboard.pages.shared.badges import Badge

ANY_KEY = "ANY-KEY"
NOTHING = mark_safe('<span class="faint">–</span>')


def age(at: datetime | str | None) -> SafeString:
    """A relative time with the exact one on hover; app.js keeps it current."""
    if not at:
        return NOTHING
    at = datetime.fromisoformat(at) if isinstance(at, str) else at
    words, exact = numbers.age(at, timezone.now()), f"{at.astimezone(UTC):%d %b %Y, %H:%M:%S} UTC"
    return mark_safe(f'<time datetime="{at.isoformat()}" title="{exact}" data-age>{words}</time>')


@cache
def status(badge: Badge) -> SafeString:
    """A status as a coloured word with its icon."""
    look = f" is-{badge.look}" if badge.look else ""
    return mark_safe(
        f'<span class="badge-status is-{badge.colour}{look}">{icons.icon(badge.icon)}{escape(badge.word)}</span>'
    )


def titled(badge: Badge, reason: str) -> SafeString:
    """A status that says on hover why it is so."""
    return mark_safe(f'<span title="{escape(reason)}">{status(badge)}</span>')


def progress(step: int | None, steps: int | None, label: str, colour: str = "") -> SafeString:
    """Return how many of its steps a run has done, in a colour; without a known end only the step."""
    if steps:
        done = step or 0
        shown = (
            f'<progress max="{steps}" value="{done}" aria-label="{escape(label)}"></progress>'
            f"<span>{numbers.count(done)} / {numbers.count(steps)}</span>"
        )
    else:
        shown = NOTHING if step is None else f"<span>step {numbers.count(step)}</span>"
    line = f'<span class="progress-line">{shown}</span>'
    return mark_safe(f'<div class="is-{colour}">{line}</div>' if colour else line)


def sparkline(path: str, label: str) -> SafeString:
    """A small chart of one line. ``path`` is an SVG path in a box of 88 by 24; ``label`` names what it shows."""
    if not path:
        return NOTHING
    return mark_safe(
        '<svg class="spark" viewBox="0 0 88 24" preserveAspectRatio="none" role="img"'
        f' aria-label="{escape(label)}"><path d="{path}"/></svg>'
    )


def clipped(text: str) -> SafeString:
    """A text of any length in a cell that may be too narrow for it."""
    return mark_safe(f'<span class="clip" title="{escape(text)}">{escape(text)}</span>')


def address(page: str, key: str) -> SafeString:
    """The URL of the page about one thing, for tables that hold hundreds: the site's routes are asked once a page.
    ``key`` is an id, or a name of letters, digits, - and _."""
    return mark_safe(_address_of_any(page).replace(ANY_KEY, escape(key)))


def opener(page: str, key: str, name: str) -> SafeString:
    """The name of a row, which leads to the page about it."""
    shown = escape(name)
    return mark_safe(
        f'<a class="name clip" href="{address(page, key)}" tabindex="-1" title="{shown}" data-open>{shown}</a>'
    )


@cache
def _address_of_any(page: str) -> str:
    return reverse(page, args=(ANY_KEY,))
