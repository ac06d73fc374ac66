"""Making, changing, checking and deleting clusters, and letting machines into them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.pages.shared.frame import answer, page, person, problems_of, show
from runs import actions
from runs.engines import ENGINES, allocating_engine
from runs.engines.cluster_settings.settings import SECRET, SettingField
from runs.models import Cluster, Project
from runs.models.clusters import IDLE_ACTIONS
from runs.placing.policies import FAIR_SHARE, POLICIES
from runs.rights.access import Permission, get_cluster
from runs.rights.access.operations import machine, site
from trainyard.contract.base import JsonObject
from trainyard.contract.machines import sandbox_level
from trainyard.spec import SpecError
from trainyard.spec.sections.log_rules import line_of

LEVELS = (  # docs/isolation.md
    ("0", "0: any node"),
    ("1", "1: nodes that keep Trainyard's files and other projects' runs from a script"),
    ("2", "2: nodes that also give each attempt its own processes, and filter system calls"),
)
FIELDS = ("name", "region", "labels", "spares", "half_life_days", "spared_minutes", "slot_hour_price", "topology",
          "idle_action", "idle_below", "idle_minutes", "log_rules", "isolation_minimum", "scheduling")  # fmt: skip
PLAIN = ("name", "region", "projects", "interactive", "scheduling", "idle_action")
NUMBERS = ("spares", "half_life_days", "spared_minutes", "idle_below", "idle_minutes")


class Values(NamedTuple):
    name: str
    region: str
    labels: str  # one NAME=VALUE a line
    projects: list[str]
    settings: dict[str, str]  # of an engine that brings nodes, by field
    log_rules: str = ""  # one rule a line
    spares: str = "1"
    interactive: bool = False
    isolation_minimum: str = "0"
    scheduling: str = FAIR_SHARE
    half_life_days: str = "7"
    spared_minutes: str = "0"
    slot_hour_price: str = ""
    topology: str = ""  # levels, with commas between
    idle_action: str = "mark"
    idle_below: str = "5"
    idle_minutes: str = "30"

    @property
    def by_name(self) -> dict[str, str]:
        pairs = (line.partition("=") for line in self.labels.splitlines())
        return {name.strip(): value.strip() for name, _, value in pairs if name.strip()}

    def given(self) -> dict[str, Any]:
        """Return the arguments of both actions. Raises ValidationError."""
        return {
            **{name: getattr(self, name) for name in PLAIN},
            **{name: _number(name, getattr(self, name)) for name in NUMBERS},
            "log_rules": [line.strip() for line in self.log_rules.splitlines() if line.strip()],
            "topology": [level.strip() for level in self.topology.split(",") if level.strip()],
            "slot_hour_price": _number("slot_hour_price", self.slot_hour_price or "-1"),
            "isolation_minimum": _chosen_level(self.isolation_minimum),
        }


class ClusterForm(NamedTuple):
    values: Values
    heading: str
    button: str
    engine: str
    is_new: bool = False
    kept: frozenset[str] = frozenset()  # names of secrets

    def lines(self, problems: Mapping[str, str]) -> list[tuple[SettingField, str, bool, str]]:
        """Return each field of the engine, its text, whether a secret was given before, and the problem."""
        engine = allocating_engine(self.engine)
        return [self._line(field, problems) for field in engine.settings_type.fields()] if engine else []

    def _line(self, field: SettingField, problems: Mapping[str, str]) -> tuple[SettingField, str, bool, str]:
        shown = "" if field.kind == SECRET else self.values.settings.get(field.name, "")
        return field, shown, field.name in self.kept, problems.get(f"settings.{field.name}", "")

    @property
    def document(self) -> JsonObject:
        engine = allocating_engine(self.engine)
        return engine.settings_type.document_of(self.values.settings) if engine else {}


@page(get=site(Permission.CLUSTERS_MANAGE), post=site(Permission.CLUSTERS_MANAGE))
def create(request: HttpRequest) -> HttpResponse:
    name = request.GET.get("engine", "")
    engine = name if name in ENGINES else "celery"
    form = ClusterForm(_asked(request, engine), "New cluster", "Create cluster", engine, is_new=True)

    def save(values: Values) -> None:
        given = {"engine": engine, "labels": values.by_name, "settings": form.document, **values.given()}
        actions.create_cluster(actor=person(request), **given)

    return _form(request, form, save)


@page(get=machine(Permission.CLUSTERS_MANAGE), post=machine(Permission.CLUSTERS_MANAGE))
def edit(request: HttpRequest, cluster_id: str) -> HttpResponse:
    cluster = get_cluster(request, cluster_id)
    labels = "\n".join(f"{name}={value}" for name, value in cluster.labels.items())
    projects = list(cluster.projects.values_list("name", flat=True))
    rules = "\n".join(line_of(rule) for rule in cluster.log_rules)
    texts = _texts(cluster.engine, cluster.settings)
    price, numbers = cluster.slot_hour_price, {name: f"{getattr(cluster, name):g}" for name in NUMBERS}
    values = Values(
        cluster.name, cluster.region, labels, projects, texts, rules, interactive=cluster.interactive,
        isolation_minimum=str(cluster.isolation_minimum), scheduling=cluster.scheduling, **numbers,
        slot_hour_price="" if price is None else f"{price:g}", topology=", ".join(cluster.topology),
        idle_action=cluster.idle_action,
    )  # fmt: skip
    if request.method == "POST":
        values = _asked(request, cluster.engine)
    form = ClusterForm(values, f"Edit cluster {cluster.name}", "Save", cluster.engine, kept=frozenset(cluster.secrets))

    def change(new: Values) -> None:
        given = {"labels": {**dict.fromkeys(cluster.labels), **new.by_name}, "settings": form.document or None}
        actions.edit_cluster(actor=person(request), cluster=cluster, **given, **new.given())

    return _form(request, form, change)


@page(post=machine(Permission.CLUSTERS_MANAGE))
def delete(request: HttpRequest, cluster_id: str) -> HttpResponse:
    cluster = get_cluster(request, cluster_id)
    actions.delete_cluster(actor=person(request), cluster=cluster)
    return answer(request, f"Deleted cluster {cluster.name}.", to=reverse("clusters"))


@page(get=machine(Permission.CLUSTERS_MANAGE), post=machine(Permission.CLUSTERS_MANAGE))
def add_node(request: HttpRequest, cluster_id: str) -> HttpResponse:
    """On POST make a join token and show the one command that uses it, this once."""
    cluster = get_cluster(request, cluster_id)
    context: dict[str, Any] = {"cluster": cluster}
    if request.method == "POST":
        token, secret = actions.new_join_token(actor=person(request), cluster=cluster)
        context["token"] = token
        context["command"] = f"trainyard node --join {secret} --server {settings.PUBLIC_URL}"
        context["is_local"] = settings.PUBLIC_URL.startswith(("http://127.", "http://localhost", "http://[::1]"))
    return show(request, "nodes/add_node.html", context, fragments={"dialog": "nodes/_add_node.html"})


@page(post=machine(Permission.CLUSTERS_USE))
def check(request: HttpRequest, cluster_id: str) -> HttpResponse:
    found = get_cluster(request, cluster_id)
    actions.check_cluster(actor=person(request), cluster=found)
    return answer(request, f"Checking the nodes of cluster {found.name}; the results come in seconds.", home="clusters")


def _form(request: HttpRequest, form: ClusterForm, act: Callable[[Values], None]) -> HttpResponse:
    problems: dict[str, str] = {}
    if request.method == "POST":
        try:
            act(form.values)
        except ValidationError as error:
            problems = problems_of(error)
        except SpecError as error:
            problems = {"log_rules": " ".join(f"{_of_rule(one.path)}{one.message}." for one in error.errors)}
        except actions.Refused as error:
            problems = {"name": error.sentence}
        else:
            return redirect("clusters")
    context = {
        **form._asdict(),
        "lines": form.lines(problems),
        "about": ENGINES[form.engine].about if form.engine in ENGINES else "",
        "engines": [(name, engine.label) for name, engine in sorted(ENGINES.items())] if form.is_new else [],
        "problems": problems,
        "levels": LEVELS,
        "idle_actions": IDLE_ACTIONS.items(),
        "policies": [(name, policy.label) for name, policy in POLICIES.items()],
        "projects": Project.objects.values_list("name", flat=True),
    }
    return show(request, "nodes/cluster_form.html", context, status=422 if problems else 200)


def _asked(request: HttpRequest, engine: str) -> Values:
    fields = {name: request.POST.get(name, "").strip() or Values._field_defaults.get(name, "") for name in FIELDS}
    texts = _texts(engine, {})
    if request.method == "POST" and (allocating := allocating_engine(engine)):
        texts = {one.name: request.POST.get(f"settings.{one.name}", "") for one in allocating.settings_type.fields()}
    projects, is_interactive = request.POST.getlist("projects"), "interactive" in request.POST
    return Values(**fields, projects=projects, settings=texts, interactive=is_interactive)


def _texts(engine: str, settings: JsonObject) -> dict[str, str]:
    """Return what the fields of the engine's settings show."""
    allocating = allocating_engine(engine)
    return allocating.settings_type.texts_of(settings) if allocating else {}


def _number(name: str, text: str) -> Any:
    """Raises ValidationError."""
    try:
        return cast(Any, Cluster._meta.get_field(name)).clean(text, None)
    except ValidationError as error:
        raise ValidationError({name: f"{text[:20]!r} is no number that this can be."}) from error


def _chosen_level(text: str) -> int:
    """Raises ValidationError."""
    try:
        return int(sandbox_level(text, "isolation_minimum"))
    except ValueError as error:
        raise ValidationError({"isolation_minimum": [str(error)]}) from error


def _of_rule(path: str) -> str:
    """Return the number of the rule that a path is about, as people count them, in front of what is wrong."""
    number = path.split(".")[1] if "." in path else ""
    return f"Rule {int(number) + 1}: " if number.isdecimal() else ""
