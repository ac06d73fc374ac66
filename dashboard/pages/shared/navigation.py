"""The rail's entries. A page that is built adds its line here."""

from __future__ import annotations

from typing import NamedTuple

from django.urls import NoReverseMatch, reverse


class Entry(NamedTuple):
    label: str
    icon: str
    url_name: str
    keys: str  # what to press to get there
    on_phone: bool = True


ENTRIES = (
    Entry("Home", "home", "home", "g h"),
    Entry("Runs", "runs", "runs", "g r"),
    Entry("Jobs", "jobs", "jobs", "g j"),
    Entry("Sweeps", "sweeps", "sweeps", "g s"),
    Entry("Data", "data", "datasets", "g d"),
    Entry("Clusters", "clusters", "clusters", "g c"),
    Entry("People", "people", "people", "g p", on_phone=False),
)


class Link(NamedTuple):
    label: str
    icon: str
    url: str
    keys: str
    on_phone: bool
    is_current: bool


def entries(path: str) -> list[Link]:
    """The links of the frame, with the one that leads to ``path`` marked."""
    links = []
    for entry in ENTRIES:
        try:
            url = reverse(entry.url_name)
        except NoReverseMatch:
            continue  # that page is not built into this site
        is_current = path == url or (url != "/" and path.startswith(url))
        links.append(Link(entry.label, entry.icon, url, entry.keys, entry.on_phone, is_current))
    return links
