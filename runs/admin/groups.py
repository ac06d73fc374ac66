"""Groups of the admin's tables by subject; tables that only the product needs come last."""

from functools import cache
from typing import Any, NamedTuple

from django.contrib import admin
from django.db import models as django_models
from django.http import HttpRequest
from django.urls import reverse

from runs import models
from runs.records.media.kinds import ALL_OF
from runs.records.metrics import models as metrics
from trainyard.contract.base import JsonObject

Model = type[django_models.Model]
Table = tuple[Model, str, str]  # what people call its rows, and what one of them is


class TableGroup(NamedTuple):
    title: str
    words: str
    tables: tuple[Table, ...]


def _group(title: str, words: str, *tables: Table) -> TableGroup:
    return TableGroup(title, words, tables)


GROUPS = (
    _group(
        "People",
        "Who may come in, and what they may do.",
        (models.User, "People", "who can sign in"),
        (models.Project, "Projects", "what owns runs, jobs and data"),
        (models.Membership, "Memberships", "who has which role in which project"),
        (models.Invitation, "Invitations", "links by which somebody joins a project"),
        (models.Token, "API tokens", "keys of scripts and terminals"),
    ),
    _group(
        "Sign-in",
        "How people come in, and where they are.",
        (models.BrowserSession, "Sessions", "browsers that are signed in"),
        (models.Identity, "Identities", "people at identity providers"),
        (models.ProvidedGroup, "Provided groups", "groups that a provider keeps"),
        (models.ProvisioningToken, "SCIM tokens", "keys of programs that provision people"),
    ),
    _group(
        "Rights",
        "What groups of people may do, and the roles that projects made for themselves.",
        (models.GroupRole, "Roles of groups", "which group has which role in which project, or in every one"),
        (models.ClusterRole, "Groups on clusters", "which group may run on a cluster, or operate it"),
        (models.CustomRole, "Roles of projects", "permissions that a project adds to a member's role"),
    ),
    _group(
        "Training",
        "What was launched, and what came of it.",
        (models.Run, "Runs", "one training each"),
        (models.Attempt, "Attempts", "each start of a run's ranks"),
        (models.Event, "Events", "what happened to runs, in sentences"),
        (models.Job, "Jobs", "saved specs"),
        (models.GitKey, "Git keys", "what opens a project's repositories"),
    ),
    _group(
        "Search",
        "Sweeps over parameters.",
        (models.Sweep, "Sweeps", "searches for better parameters"),
        (models.Trial, "Trials", "runs that a sweep launched, and what came of them"),
    ),
    _group(
        "Security",
        "What was done by whom, and what runs are given in secret.",
        (models.AuditEntry, "Audit", "who did what, when, from where, and what came of it"),
        (models.Secret, "Secrets", "names of values that runs are given; the values are nowhere to be seen"),
    ),
    _group(
        "Privacy",
        "What belongs to people, and where projects' data is stored.",
        (models.PersonalExport, "Exports", "what belongs to a person, in a file for them"),
        (models.ErasedPerson, "Erased people", "numbers of people who are not to come back with a backup"),
        (models.Consent, "Consents", "who agreed to which text"),
        (models.StoredData, "Stored data", "how much of a project lies where"),
        (models.RemovedData, "Removed data", "what retention took from runs"),
    ),
    _group(
        "Clusters",
        "The machines.",
        (models.Cluster, "Clusters", "nodes that belong together"),
        (models.Node, "Nodes", "machines that run ranks"),
        (models.JoinToken, "Join tokens", "by which a machine becomes a node"),
        (models.Preflight, "Preflights", "checks of nodes, and what they found"),
    ),
    _group(
        "Data",
        "What runs read and what they leave.",
        (models.Dataset, "Datasets", "files that runs read, by name"),
        (models.CodeBundle, "Code", "folders of code that runs were launched with"),
        (metrics.Checkpoint, "Checkpoints", "saved states of runs"),
        (metrics.Series, "Metrics", "each metric of each run: last, least and largest value"),
        (metrics.Media, "Media", f"{ALL_OF} that runs logged"),
    ),
)
MACHINERY = _group(
    "Machinery",
    "Rows that Trainyard keeps for itself. They help to find a fault in Trainyard, and are only looked at.",
    (models.AuditHead, "End of the audit", "the last row's number and hash"),
    (models.SecretVersion, "Versions of secrets", "each value that a secret has had, encrypted"),
    (models.SecretUse, "Uses of secrets", "which attempt had which version"),
    (models.StorageKey, "Storage keys", "with which a project's checkpoints and output files are encrypted"),
    (models.TrialRun, "Further runs of trials", "those with other seeds"),
    (models.TrialReport, "Reports of trials", "the objective at steps"),
    (models.ProviderSession, "Provider sessions", "what a provider gave for a session"),
    (models.Experiment, "Experiments", "groups of runs that MLflow's clients made"),
    (models.Workspace, "Chart settings", "how each person looks at a project's charts"),
    (models.Report, "Reports", "texts about runs"),
    (models.ReportVersion, "Versions of reports", "each as somebody saved it"),
    (models.ReportComment, "Comments on reports", "what people wrote below them"),
    (models.NoticeRule, "Rules of notices", "who gets which notices, and where"),
    (models.Following, "Followed runs", "of which run who gets all notices, or none"),
    (models.Notice, "Notices", "what was notified, and what came of sending it"),
    (models.NewEvent, "New events", "those of which notices are still to be made"),
    (models.SavedView, "Saved views", "tables as people left them, under names"),
    (models.SharedLink, "Shared links", "links by which guests read a run, a comparison or a sweep"),
    (models.SignInLink, "Sign-in links", "one-time links, used or open"),
    (models.IdempotencyKey, "Idempotency keys", "answers that are kept for requests that are sent again"),
    (models.Placement, "Placements", "the part of an attempt on one node"),
    (models.Allocation, "Allocations", "machines that an engine asked its system for"),
    (models.HeldSlot, "Held slots", "slots of nodes that an attempt has"),
    (models.RunTime, "Times of runs", "where the time of a run that has ended went"),
    (models.StartTerms, "Terms of starts", "times and arrays of runs"),
    (models.Dependency, "Dependencies", "which runs wait for which"),
    (models.RunCode, "Code from Git", "which commit a run was made of"),
    (models.RunNumber, "Numbers of runs", "the newest one that a run got"),
    (models.GoneRun, "Deleted runs", "ids that no run gets again"),
    (metrics.Telemetry, "Telemetry of runs", "how far the records of each run are stored"),
    (metrics.Producer, "Producers", "processes that sent records, and up to which one all are stored"),
    (metrics.DeadLetter, "Refused records", "records that could not be stored"),
    (metrics.Fact, "Facts", "documents that ranks sent, such as what a step took"),
    (metrics.CheckpointUse, "Restored checkpoints", "which attempt went on from which checkpoint"),
    (metrics.Segment, "Segments", "points of one metric, packed"),
    (metrics.Block, "Blocks", "points of several metrics, packed"),
    (metrics.Axis, "Axes", "steps and times that metrics share"),
    (metrics.Level, "Levels", "coarser copies of metrics, for charts of long runs"),
    (metrics.LogStream, "Log streams", "the output of each rank"),
    (metrics.LogChunk, "Log chunks", "lines of output, packed"),
    (metrics.NodeSample, "Health of nodes", "samples of load, memory and network"),
    (metrics.Erasure, "Erasures", "deleted runs whose points are being removed"),
)


def navigation(request: HttpRequest) -> list[JsonObject]:
    """Return the sidebar as unfold reads it: every table that people look for, and one link to the others."""
    shown = [{"title": one.title, "items": [_item(request, table) for table in one.tables]} for one in GROUPS]
    inside = any(request.path.startswith(_address(model)) for model, _, _ in MACHINERY.tables)
    link = f"{reverse('admin:index')}?machinery#machinery"
    return [*shown, {"separator": True, "items": [{"title": MACHINERY.title, "link": link, "active": inside}]}]


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Give the first page of the admin its groups, without what this person may not see."""
    context["groups"] = [_seen(request, one) for one in GROUPS]
    context["machinery"] = _seen(request, MACHINERY)
    context["is_machinery_open"] = "machinery" in request.GET
    return context


def _item(request: HttpRequest, table: Table) -> JsonObject:
    model, title, _ = table
    link = _address(model)
    active = request.path.startswith(link)
    return {"title": title, "link": link, "active": active, "permission": lambda request: _may_see(request, model)}


def _seen(request: HttpRequest, group: TableGroup) -> JsonObject:
    rows = [(_address(model), title, words) for model, title, words in group.tables if _may_see(request, model)]
    return {"title": group.title, "words": group.words, "rows": rows}


def _may_see(request: HttpRequest, model: Model) -> bool:
    return admin.site._registry[model].has_view_or_change_permission(request)


@cache
def _address(model: Model) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
