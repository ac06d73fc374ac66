"""Clusters, the tokens that let machines into them, and checks of their nodes."""

import secrets
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from runs.actions.jobs import refusing_without_key, taking_name
from runs.actions.people.ways_in import end_of
from runs.engines import ENGINES, allocating_engine
from runs.engines.allocating import keep_offers
from runs.engines.cluster_settings.settings import MAX_CHARACTERS, Guarded, SettingsError, guarded_problems, keep_secret
from runs.life.preflight.beforehand import idle_nodes
from runs.models import Cluster, JoinToken, Node, Preflight, Project, Run, User
from runs.models.access import digest_of
from runs.models.clusters import IDLE_ACTIONS
from runs.placing.policies import POLICIES
from runs.rights.access import Permission, is_administrator, require, require_manager, require_runner, with_rights_held
from runs.serving import broadcast
from runs.serving.certificates import pin
from runs.tasks import schedule_soon
from runs.values.refused import Refused
from trainyard.contract.base import JsonObject
from trainyard.contract.machines import LABEL, sandbox_level
from trainyard.spec.sections.log_rules import read_rules

TOKEN_LIFE = timedelta(hours=24)
LOCAL = "local"
MAX_PRICE, MAX_LEVELS = 1_000_000, 5
BOUNDS = {"half_life_days": (0.01, 3650, "days"), "spared_minutes": (0, 10_080, "minutes"),
          "idle_below": (0.01, 100, "percent"), "idle_minutes": (0.2, 1440, "minutes")}  # fmt: skip


def create_cluster(*, actor: User, engine: str = "celery", **values: Any) -> Cluster:
    """Make an empty cluster with the values of ``edit_cluster``, of which ``projects`` are names or ids.
    Raises ValidationError for a bad name, a project that there is not, an unknown engine or settings that it does not
    take, SpecError for a rule of the log that is none, Refused for a taken name."""
    require_manager(actor)
    values["settings"] = values.get("settings") or {}
    return _offering(_changed(actor, Cluster(engine=engine), values))


def cluster_of_this_machine(*, actor: User, node: str) -> Cluster:
    """Return the cluster of the server's own machine: the one that its node is in, or was, whatever it is called now,
    else ``local``, which is made where there is none."""
    require_manager(actor)
    known = Node.objects.filter(name=node).select_related("cluster").first()
    if known is not None:
        return known.cluster
    cluster, is_new = Cluster.objects.get_or_create(name=LOCAL, defaults={"interactive": True})
    if is_new and (first := Project.objects.order_by("created_at").first()):
        cluster.projects.add(first)
    return cluster


def edit_cluster(*, actor: User, cluster: Cluster, **changes: Any) -> Cluster:
    """Change the named fields of REST: what trains there goes on as it started. What is not named stays, a label or a
    setting too; one that is None goes, a setting to its default. A price below 0 is none. Raises ValidationError for a
    bad value, SpecError for a rule that is none, Refused for a taken name."""
    require_manager(actor, cluster)
    cluster = _changed(actor, cluster, changes)
    schedule_soon(cluster.pk)
    return _offering(cluster)


def _changed(actor: User, cluster: Cluster, changes: Mapping[str, Any]) -> Cluster:
    given = {name: value for name, value in changes.items() if value is not None}
    if "labels" in given:
        cluster.labels = _merged(cluster.labels, given["labels"])
    for field in ("name", "region", "spares", "interactive", "slot_hour_price", *BOUNDS):
        if field in given:
            setattr(cluster, field, given[field])
    if "isolation_minimum" in given:
        cluster.isolation_minimum = _level(given["isolation_minimum"])
    if "scheduling" in given:
        cluster.scheduling = _one_of(POLICIES, "scheduling", given["scheduling"])
    if "idle_action" in given:
        cluster.idle_action = _one_of(IDLE_ACTIONS, "idle_action", given["idle_action"])
    if "topology" in given:
        cluster.topology = _levels(given["topology"])
    for field, (least, most, unit) in BOUNDS.items():
        if not least <= (value := getattr(cluster, field)) <= most:
            raise ValidationError({field: f"It is {least:g} to {most:,} {unit}, not {value:g}."})
    if (price := cluster.slot_hour_price) is not None and not 0 <= price <= MAX_PRICE:
        if not price < 0:
            raise ValidationError({"slot_hour_price": f"A price is 0 to {MAX_PRICE:,}, not {price:g}."})
        cluster.slot_hour_price = None
    if "settings" in given:
        _set(actor, cluster, given["settings"])
    cluster.clean_fields()
    if "log_rules" in given:
        cluster.log_rules = read_rules(list(given["log_rules"]))
    projects = _projects(given["projects"]) if "projects" in given else None
    with taking_name(f"There is already a cluster named {cluster.name}."):
        cluster.save()
        if projects is not None:
            cluster.projects.set(projects)
    return cluster


def delete_cluster(*, actor: User, cluster: Cluster) -> None:
    """Delete a cluster that has neither nodes nor runs: their history names it."""
    require_manager(actor, cluster)
    with transaction.atomic():
        if Node.objects.present().filter(cluster=cluster).exists():
            raise Refused("has-nodes", f"Cluster {cluster.name} still has nodes.")
        if cluster.runs.exists():
            raise Refused("has-runs", f"Cluster {cluster.name} has runs in its history.")
        if cluster.datasets.exists():
            raise Refused("has-datasets", f"Projects have datasets on cluster {cluster.name}. They go first.")
        cluster.nodes.all().delete()  # removed, left or only offered ones: no run's history names them
        cluster.delete()


@with_rights_held
def new_join_token(*, actor: User, cluster: Cluster) -> tuple[JoinToken, str]:
    """Return a token and its secret, which is shown this once and lets one machine in within a day, and
    no longer than the token that makes it."""
    require_manager(actor, cluster)
    secret, ends_at = "join_" + secrets.token_urlsafe(32), end_of(TOKEN_LIFE, actor)
    token = JoinToken.objects.create(
        cluster=cluster, digest=digest_of(secret), created_by=actor, by_token=actor.token, expires_at=ends_at
    )
    return token, pin(secret)


def _level(number: int) -> int:
    """Raises ValidationError."""
    try:
        return int(sandbox_level(str(number), "isolation_minimum"))
    except ValueError as error:
        raise ValidationError({"isolation_minimum": [str(error)]}) from error


def _one_of(known: Collection[str], field: str, name: str) -> str:
    """Raises ValidationError."""
    if name not in known:
        raise ValidationError({field: [f"{name[:40]!r} is none of {', '.join(known)}."]})
    return name


def _levels(names: Sequence[str]) -> list[str]:
    """Raises ValidationError."""
    if len(names) > MAX_LEVELS or len(set(names)) < len(names) or not all(map(LABEL.fullmatch, names)):
        words = f"{', '.join(names)[:80]!r} are not up to {MAX_LEVELS} names of labels, each once."
        raise ValidationError({"topology": [words]})
    return list(names)


def _set(actor: User, cluster: Cluster, document: JsonObject) -> None:
    """Take the settings, and lock the secrets among them. What is not named stays; an empty secret goes."""
    allocating = allocating_engine(cluster.engine)
    secrets = allocating.settings_type.secret_names() if allocating else frozenset[str]()
    given = secrets.intersection(document)
    plain = _merged(cluster.settings, {name: one for name, one in document.items() if name not in secrets})
    cluster.settings = changed_settings(
        actor=actor, cluster=cluster, engine=cluster.engine, document=plain, given=given
    )
    for name in sorted(given):
        value = document[name] or ""
        if not isinstance(value, str) or len(value) > MAX_CHARACTERS:
            problem = f"A text of at most {MAX_CHARACTERS:,} characters."
        else:
            problem = allocating.settings_type.secret_problem(name, value) if allocating and value else ""
        if problem:
            raise ValidationError({f"settings.{name}": problem})
        with refusing_without_key():
            keep_secret(cluster, name, value)


def _merged(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an object is after a merge patch (RFC 7396, of one level)."""
    return {name: value for name, value in {**before, **changes}.items() if value is not None}


def changed_settings(
    *, actor: User, cluster: Cluster, engine: str, document: JsonObject, given: Collection[str] = ()
) -> JsonObject:
    """Return the settings as they are kept, where the actor may change those of the cluster to them. ``given``: the
    names of the secrets that come with them. Raises ValidationError."""
    after = checked_settings(engine, document)
    found = guarded_problems(
        _guarded(cluster.engine, cluster.settings, engine),
        _guarded(engine, after),
        kept=set(cluster.secrets).difference(given),
        is_administrator=is_administrator(actor),
    )
    if found:
        raise ValidationError({f"settings.{field}": words for field, words in found.items()})
    return after


def _guarded(engine: str, document: JsonObject, next_engine: str = "") -> Guarded:
    """Return what is guarded of these settings; with the defaults of ``next_engine`` where they say nothing."""
    allocating, following = allocating_engine(engine), allocating_engine(next_engine)
    # A new cluster has no document.
    found = allocating.settings_type.of(document).guarded() if allocating and document else Guarded()
    defaults = following.settings_type().guarded().on_server if following else {}
    return found._replace(on_server={**defaults, **found.on_server})


def checked_settings(engine: str, document: JsonObject) -> JsonObject:
    """Return the settings as they are kept."""
    if engine not in ENGINES:
        known = ", ".join(sorted(ENGINES))
        raise ValidationError({"engine": f"There is no engine {engine!r}; there are: {known}."})
    allocating = allocating_engine(engine)
    if allocating is None:
        if document:
            raise ValidationError({"settings": f"Engine {engine} has no settings, and {sorted(document)[0]!r} is one."})
        return {}
    try:
        return allocating.checked(document)
    except SettingsError as error:
        raise ValidationError({f"settings.{field}": words for field, words in error.problems.items()}) from error


def _offering(cluster: Cluster) -> Cluster:
    """Have runs placed at once on machines that the engine may bring."""
    if (engine := allocating_engine(cluster.engine)) is not None:
        keep_offers(cluster, engine.offers(cluster))
    return cluster


def _projects(names: Sequence[str]) -> list[Project]:
    found = {name: Project.objects.filter(Q(name=name) | Q(pk=name)).first() for name in dict.fromkeys(names)}
    if unknown := [name for name, project in found.items() if project is None]:
        raise ValidationError({"projects": [f"There is no project {name!r}." for name in unknown]})
    return [project for project in found.values() if project is not None]


def check_cluster(*, actor: User, cluster: Cluster, nodes: Sequence[Node] | None = None) -> Preflight:
    """Have the nodes checked now: all of the cluster, or these, with a collective over those that train nothing.

    Return the preflight that is under way already where there is one for them. Raises Forbidden for who may not run
    there, Refused where there is nothing to check.
    """
    require_runner(actor, cluster)
    members = list(Node.objects.present().filter(cluster=cluster)) if nodes is None else list(nodes)
    if not members:
        raise Refused("no-nodes", f"Cluster {cluster.name} has no node that could be checked.")
    ids = sorted(node.pk for node in members)
    with transaction.atomic():
        Cluster.objects.select_for_update().get(pk=cluster.pk)  # one preflight at a time
        under_way = cluster.preflights.filter(ended_at=None).first()
        if under_way is not None and set(ids) <= set(under_way.nodes):
            return under_way
        if under_way is not None:
            raise Refused("under-way", f"Other nodes of cluster {cluster.name} are just being checked. Ask again soon.")
        collective = idle_nodes(members, timezone.now())
        made = Preflight.objects.create(
            cluster=cluster, why=Preflight.Why.ASKED, asked_by=actor, nodes=ids, collective=collective
        )
        transaction.on_commit(broadcast.nodes_changed)
    return made


def check_run(*, actor: User, run: Run) -> Preflight:
    """Have the nodes of the run's newest attempt checked now; of one that was never placed, those of its cluster."""
    require(actor, run.project, Permission.CLUSTERS_USE)
    if run.cluster is None:
        raise Refused("logged-elsewhere", f"Run {run.name} was logged outside of Trainyard: it has no nodes here.")
    attempt = run.attempts.order_by("-number").first()
    nodes = None if attempt is None else list(Node.objects.filter(placements__attempt=attempt, removed_at=None))
    return check_cluster(actor=actor, cluster=run.cluster, nodes=nodes)
