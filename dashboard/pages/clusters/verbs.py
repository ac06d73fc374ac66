"""Making, changing and deleting clusters, and letting machines into them."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.pages.shared.frame import answer, page, person, problems_of, show
from runs import actions
from runs.access import get_cluster, require_manager
from runs.models import Project

FIELDS = ("name", "region", "labels")


@page(methods=("GET", "POST"))
def create(request: HttpRequest) -> HttpResponse:
    require_manager(request.user)
    context = {"values": _asked(request), "heading": "New cluster", "button": "Create cluster"}
    return _form(request, context, lambda values: actions.create_cluster(actor=person(request), **values))


@page(methods=("GET", "POST"))
def edit(request: HttpRequest, cluster_id: str) -> HttpResponse:
    cluster = get_cluster(request.user, cluster_id, manage=True)
    labels = "\n".join(f"{name}={value}" for name, value in cluster.labels.items())
    projects = list(cluster.projects.values_list("name", flat=True))
    values = {"name": cluster.name, "region": cluster.region, "labels": labels, "projects": projects}
    if request.method == "POST":
        values = _asked(request)
    context = {"values": values, "heading": f"Edit cluster {cluster.name}", "button": "Save"}
    change = actions.edit_cluster
    return _form(request, context, lambda new: change(actor=person(request), cluster=cluster, **new))


@page(methods=("POST",))
def delete(request: HttpRequest, cluster_id: str) -> HttpResponse:
    cluster = get_cluster(request.user, cluster_id, manage=True)
    actions.delete_cluster(actor=person(request), cluster=cluster)
    return answer(request, f"Deleted cluster {cluster.name}.", to=reverse("clusters"))


@page(methods=("GET", "POST"))
def add_node(request: HttpRequest, cluster_id: str) -> HttpResponse:
    """On POST make a join token and show the one command that uses it, this once."""
    cluster = get_cluster(request.user, cluster_id, manage=True)
    context: dict[str, Any] = {"cluster": cluster}
    if request.method == "POST":
        token, secret = actions.new_join_token(actor=person(request), cluster=cluster)
        context["token"] = token
        context["command"] = f"trainyard node --join {secret} --server {settings.PUBLIC_URL}"
        context["is_local"] = settings.PUBLIC_URL.startswith(("http://127.", "http://localhost", "http://[::1]"))
    return show(request, "nodes/add_node.html", context, fragments={"dialog": "nodes/_add_node.html"})


def _form(request: HttpRequest, context: dict[str, Any], act: Any) -> HttpResponse:
    problems: dict[str, str] = {}
    if request.method == "POST":
        values = {**context["values"], "labels": _labels(context["values"]["labels"])}
        try:
            act(values)
        except ValidationError as error:
            problems = problems_of(error)
        except actions.Refused as error:
            problems = {"name": error.sentence}
        else:
            return redirect("clusters")
    context = {**context, "problems": problems, "projects": Project.objects.values_list("name", flat=True)}
    return show(request, "nodes/cluster_form.html", context, status=422 if problems else 200)


def _asked(request: HttpRequest) -> dict[str, Any]:
    return {
        **{name: request.POST.get(name, "").strip() for name in FIELDS},
        "projects": request.POST.getlist("projects"),
    }


def _labels(text: str) -> dict[str, str]:
    """One NAME=VALUE a line."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip()}
