"""The site's pages. ``route`` refuses a view that does not say who may open it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.urls import URLPattern, path

from dashboard.pages import home, jump, run, run_verbs, runs_table, sign_in


def route(pattern: str, view: Callable[..., Any], name: str) -> URLPattern:
    if not hasattr(view, "admits"):
        raise TypeError(f"the view of {pattern!r} must wear @page, which says who may open it")
    return path(pattern, view, name=name)


urlpatterns = [
    route("", home.home, "home"),
    route("launch-example/", home.launch_example, "launch-example"),
    route("jump/", jump.jump, "jump"),
    route("sign-in/", sign_in.sign_in, "sign-in"),
    route("sign-in/<str:secret>/", sign_in.use_link, "use-link"),
    route("sign-out/", sign_in.sign_out, "sign-out"),
    route("runs/", runs_table.table, "runs"),
    route("runs/do/<slug:verb>/", run_verbs.do_many, "do-many"),
    route("runs/<slug:run_id>/", run.charts, "run"),
    route("runs/<slug:run_id>/ranks/", run.ranks, "run-ranks"),
    route("runs/<slug:run_id>/logs/", run.logs, "run-logs"),
    route("runs/<slug:run_id>/files/", run.files, "run-files"),
    route("runs/<slug:run_id>/spec/", run.spec, "run-spec"),
    route("runs/<slug:run_id>/timeline/", run.timeline, "run-timeline"),
    route("runs/<slug:run_id>/annotate/", run_verbs.annotate, "annotate"),
    route("runs/<slug:run_id>/do/<slug:verb>/", run_verbs.do, "do"),
]
