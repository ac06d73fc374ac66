"""What the palette (Ctrl-K) finds: pages, and runs by name, tag or id."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse

from dashboard.pages.shared.badges import badge
from dashboard.pages.shared.frame import page
from dashboard.pages.shared.navigation import entries
from runs.ordered import first_rows
from runs.presenting.listing import find_runs

LIMIT = 12


@page()
def jump(request: HttpRequest) -> HttpResponse:
    words = request.GET.get("q", "").strip()[:100]
    items = [
        {"label": link.label, "kind": "page", "url": link.url}
        for link in entries("")
        if words.lower() in link.label.lower()
    ]
    items += [
        {"label": run.name, "kind": f"{badge(run.status).word} · {run.pk}", "url": reverse("run", args=(run.pk,))}
        for run in first_rows(find_runs(request.user, words=words).order_by("-created_at", "-pk"), LIMIT)
    ]
    return JsonResponse({"items": items})
