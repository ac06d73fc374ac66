"""Tables that only the product writes, a row each: their columns, and where words are looked for.

Neither values of secrets, the keys around them nor digests of tokens are shown.
"""

from django.contrib import admin

from runs import models
from runs.admin.base import OfRuns, WrittenAdmin, written
from runs.records.metrics import models as metrics
from runs.rights.audit.facts import canonical
from runs.rights.audit.pseudonyms import shown

# fmt: off

# What was launched, and what it was made of.
written(models.GoneRun, "id at", search="id")
written(models.RunNumber, "id")
written(
    models.RunTime, "run ended_at queued_s productive_s recomputed_s restart_s", search="run__id run__name",
    related="run", ordering="-run_id", base=OfRuns,
    times={
        "queued_s": "queued", "productive_s": "productive", "recomputed_s": "trained again", "restart_s": "restarts",
    },
)
written(models.StartTerms, "run not_before deadline array at_once", search="run__id array", base=OfRuns)
written(models.Dependency, "run other name must_succeed", search="run__id other__id name", base=OfRuns)
written(
    models.Event, "at run code sentence actor", search="run__id run__name", filters="code", related="run actor",
    ordering="-id", base=OfRuns,
)
written(
    models.Job, "name version project created_by created_at", search="name id", filters="project",
    related="project created_by",
)
written(
    models.CodeBundle, "sha256 project size_bytes created_by created_at", search="sha256", filters="project",
    related="project created_by", sizes="size_bytes",
)
written(
    models.RunCode, "run url commit branch subject", search="run__id commit", related="run", ordering="-run_id",
    base=OfRuns,
)
written(
    models.GitKey, "place kind project created_by created_at used_at", search="place", filters="kind project",
    related="project created_by",
)
written(
    models.Dataset, "name project cluster source state size_bytes checked_by checked_at", search="name id location",
    filters="state source project", related="project cluster checked_by", sizes="size_bytes",
)

# Searches for better parameters: looked at here, changed on their pages.
written(
    models.Sweep, "name id project status created_by created_at ended_at", search="name id", filters="status project",
    related="project created_by",
)
written(
    models.Trial, "number sweep state value run steps started_at ended_at", search="sweep__name sweep__id run__id",
    filters="state", related="sweep run",
)
written(models.TrialRun, "trial seed run", search="trial__sweep__name run__id", related="trial run")
written(models.TrialReport, "trial step value", search="trial__sweep__name", related="trial")

# Records of the ranks, as far as single rows are useful to a person.
written(
    metrics.Telemetry, "run_id cursor step median_step_s last_record_at num_points num_lines", search="run_id",
    times={"median_step_s": "time of a step"},
)
written(
    metrics.Producer, "producer run_id attempt role rank node watermark end_sequence has_gap", search="run_id producer",
    filters="role has_gap",
)
written(
    metrics.DeadLetter, "at run_id node_id producer sequence size reason", search="run_id node_id reason",
    hidden="data", sizes="size",
)
written(metrics.Series, "name labels_key run_id count first_step last_step last min max", search="run_id name")
written(metrics.Segment, "series attempt count first_step last_step cursor is_sealed", hidden="data")
written(metrics.Block, "run_id attempt cursor count", search="run_id", hidden="data")
written(metrics.Axis, "run_id count", search="run_id", hidden="data")
written(metrics.Level, "series attempt level count first_step last_step", hidden="data")
written(metrics.LogStream, "run_id attempt rank name num_lines", search="run_id")
written(
    metrics.LogChunk, "run_id stream first_line num_lines size num_errors num_warnings cursor", search="run_id",
    hidden="columns text", sizes="size",
)
written(
    metrics.Media, "run_id name labels_key kind step attempt rank size", search="run_id name", filters="kind",
    hidden="data", sizes="size",
)
written(
    metrics.Checkpoint, "run_id step fence bytes node rank is_late deleted_at invalid_why", search="run_id",
    sizes="bytes",
)
written(
    metrics.CheckpointUse, "run_id attempt state source_run step fence why", search="run_id source_run",
    filters="state",
)
written(metrics.NodeSample, "node_id at", search="node_id")
written(metrics.Erasure, "run_id at", search="run_id")
written(metrics.Fact, "name run_id attempt rank at", search="run_id name", filters="name")

# Machines, and the tokens that let them in.
written(
    models.Allocation, "attempt state job reason hosts created_at over_at", search="job attempt__run__id",
    filters="state",
)
written(
    models.Node, "name cluster address slots is_draining seen_at version removed_at", search="name id address",
    filters="cluster is_draining", hidden="key",
)
written(models.JoinToken, "cluster created_by created_at expires_at used_at node", filters="cluster", hidden="digest")
written(models.HeldSlot, "node index placement", filters="node")
written(models.Preflight, "cluster why attempt asked_by created_at ended_at", filters="cluster why")

# Rules of notices, and each notice.
written(
    models.NoticeRule, "owner project where shown only_mine created_at", search="owner__username project__name",
    filters="where", related="owner project", hidden="locked",
)
written(models.Following, "user run is_muted", search="user__username run__name", related="user run", base=OfRuns)
written(
    models.Notice, "since what place rule count state tries problem", search="what place", filters="state",
    related="rule__owner rule__project",
)
written(models.NewEvent, "event")

# People, their identities outside and what opens doors.
written(models.Experiment, "name project created_at archived_at", search="name id", related="project")
written(models.Workspace, "user project saved_at", search="user__username project__name")
written(models.Report, "title project version created_by created_at changed_at is_archived", search="title id")
written(models.ReportVersion, "report number title author at", search="title", hidden="pinned")
written(models.ReportComment, "report number author at")
written(models.SavedView, "name owner project is_default saved_at", search="name owner__username project__name")
written(
    models.Invitation, "project email role created_by created_at expires_at accepted_at accepted_by",
    filters="project role", hidden="digest",
)
written(models.SharedLink, "object project created_by created_at expires_at revoked_at num_opened", hidden="digest")
written(models.SignInLink, "user created_at expires_at used_at", hidden="digest")
written(models.IdempotencyKey, "user path status_code created_at", hidden="answer body_digest")
written(
    models.Identity, "user provider subject external_id is_provisioned signed_in_at",
    search="user__username subject external_id username", filters="provider is_provisioned", related="user",
)
written(models.ProvidedGroup, "name provider external_id is_provisioned created_at", search="name", filters="provider")
written(
    models.ProviderSession, "session provider confirmed_at check_at", search="session__user__username",
    related="session__user", hidden="locked sid",
)
written(
    models.ProvisioningToken, "provider created_by created_at last_used_at last_address revoked_at", search="provider",
    hidden="digest",
)

# The audit and secrets.
written(models.AuditHead, "sequence hash cut_sequence", search="hash", hidden="seal")
written(
    models.Secret, "name project person version created_by changed_at used_at",
    search="name project__name person__username", filters="project", related="project person created_by",
)
written(
    models.SecretVersion, "secret number created_by created_at", search="secret__name",
    related="secret__project secret__person created_by", hidden="wrapped_key ciphertext",
)
written(
    models.StorageKey, "project number key_id created_at destroyed_at", search="project__name", related="project",
    hidden="wrapped_key",
)
written(
    models.SecretUse, "name version is_personal attempt node at", search="name node attempt__run__id",
    related="attempt__run",
)

# Rows about people's rights to their data, and about what projects store.
written(models.PersonalExport, "user state size_bytes created_at expires_at", search="user__username", related="user")
written(models.ErasedPerson, "number at", search="number", hidden="digest")
written(models.Consent, "user digest at", search="user__username digest", related="user")
written(
    models.StoredData, "project kind place region bytes number measured_at", search="project__name place",
    filters="kind region", related="project",
)
written(models.RemovedData, "run kind at", search="run__id run__name", related="run")

# fmt: on


@admin.register(models.AuditEntry)
class AuditEntryAdmin(WrittenAdmin):
    """Rows of the audit. The name of a person who was erased is in no column, and is not searched."""

    fields = ("sequence", "at", "who", "action", "what", "project", "values", "result", "repeats", "hash")
    readonly_fields = ("who", "what", "values")
    list_display = ("sequence", "at", "who", "action", "what", "project", "result")
    search_fields = ("action", "project")

    @admin.display(description="actor")
    def who(self, row: models.AuditEntry) -> str:
        (entry,) = shown([row])
        return f"{entry['actor'] or 'nobody'} {entry['address']}"

    @admin.display(description="object")
    def what(self, row: models.AuditEntry) -> str:
        (entry,) = shown([row])
        return entry["object"]

    def values(self, row: models.AuditEntry) -> str:
        (entry,) = shown([row])
        return canonical({"before": entry["before"], "after": entry["after"]})
