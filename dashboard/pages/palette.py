"""Results of the palette (Ctrl-K): pages, sweeps by name, runs by name, tag or id, and documentation; a trial by its id
alone. What a page has buttons for, and what was open lately, the browser knows."""

import re

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse

from dashboard.pages.docs import listed, search
from dashboard.pages.shared.badges import badge, run_badge
from dashboard.pages.shared.frame import entries, me_links, page
from runs.models.indexes import first_rows
from runs.presenting.listing import find_runs
from runs.rights.access.operations import SIGNED_IN
from runs.sweeps.reading import sweeps_of

LIMIT = 12
MAX_SWEEPS = 4
# Pages that no menu leads to at once.
MORE_PAGES = {"Launch a run": "launch", "New dataset": "new-dataset", "Security of your account": "security"}


@page(get=SIGNED_IN)
def jump(request: HttpRequest) -> HttpResponse:
    """Return what the palette finds; with ``runs`` only runs, trials among them."""
    words, is_of_runs = request.GET.get("q", "").strip()[:100], "runs" in request.GET
    items = [] if is_of_runs else [*_pages(request, words), *_sweeps(request, words)]
    found = find_runs(request.user, words=words, has_trials=is_of_runs)
    items += [
        {"label": run.name, "kind": f"{run_badge(run).word} · {run.pk}", "url": reverse("run", args=(run.pk,))}
        for run in first_rows(found.order_by("-created_at", "-pk"), LIMIT)
    ]
    return JsonResponse({"items": items if is_of_runs else [*items, *_documents(words)]})


def _pages(request: HttpRequest, words: str) -> list[dict[str, str]]:
    """The pages whose names have the letters of each word, in their order."""
    pages = {link.label: link.url for link in entries("")}
    pages |= {link["label"]: reverse(link["url_name"]) for link in me_links(request)}
    pages |= {label: reverse(name) for label, name in MORE_PAGES.items()}
    like = [re.compile(".*".join(map(re.escape, word)), re.IGNORECASE) for word in words.split()]
    return [
        {"label": label, "kind": "page", "url": url}
        for label, url in pages.items()
        if all(one.search(label) for one in like)
    ]


def _documents(words: str) -> list[dict[str, str]]:
    """What the documentation has, where the word "docs" asks for it: runs are named by the same words."""
    if "docs" not in (wanted := words.lower().split()):
        return []
    wanted.remove("docs")
    found = [(one["title"], one["url"]) for _, part in listed() for one in part]
    if wanted:
        found = [(one.title, one.url) for one, _ in search(" ".join(wanted))]
    return [{"label": f"Docs: {title}", "kind": "page", "url": url} for title, url in found[:LIMIT]]


def _sweeps(request: HttpRequest, words: str) -> list[dict[str, str]]:
    return [
        {"label": one.name, "kind": f"sweep, {badge(one.status).word}", "url": reverse("sweep", args=(one.pk,))}
        for one in sweeps_of(request.user, words=words).order_by("-created_at", "-pk")[:MAX_SWEEPS]
    ]
