"""All tables. A database that one of the migrations named below made goes on from here when it has all of them."""

from __future__ import annotations

import re
from typing import Any

from django.conf import settings
from django.contrib.auth.models import UserManager
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.validators import MaxLengthValidator, MaxValueValidator, RegexValidator
from django.db import migrations
from django.db.models import (
    CASCADE,
    PROTECT,
    SET_NULL,
    BigAutoField,
    BigIntegerField,
    BooleanField,
    CharField,
    CheckConstraint,
    DateTimeField,
    EmailField,
    FloatField,
    ForeignKey,
    GeneratedField,
    Index,
    JSONField,
    ManyToManyField,
    OneToOneField,
    PositiveBigIntegerField,
    PositiveIntegerField,
    PositiveSmallIntegerField,
    Q,
    SlugField,
    SmallIntegerField,
    TextField,
    UniqueConstraint,
    Value,
)
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Concat, Left, Length, Lower
from django.db.models.lookups import GreaterThan
from django.utils.timezone import now

from runs.models.indexes import ListIndex
from runs.models.runs import next_number
from runs.values.ids import new_id
from trainyard.contract.statuses import Phase, Status, SweepStatus, TrialState, Wanted

# What Django has no words for, as each database says it: an index of tags, and triggers that keep rows of the audit.
REFUSAL = "rows of the audit are not changed"
SQLITE = [
    f"""CREATE TRIGGER audit_no_update BEFORE UPDATE ON runs_auditentry
        BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END""",
    f"""CREATE TRIGGER audit_no_delete BEFORE DELETE ON runs_auditentry
        WHEN OLD.sequence > (SELECT cut_sequence FROM runs_audithead WHERE id = 1)
        BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END""",
]
POSTGRESQL = [
    f"""CREATE FUNCTION audit_keep() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF TG_OP = 'DELETE' AND OLD.sequence <= (SELECT cut_sequence FROM runs_audithead WHERE id = 1) THEN
                RETURN OLD;
            END IF;
            RAISE EXCEPTION '{REFUSAL}';
        END $$""",
    """CREATE TRIGGER audit_keep BEFORE UPDATE OR DELETE ON runs_auditentry
        FOR EACH ROW EXECUTE FUNCTION audit_keep()""",
]
WITHOUT = {
    "sqlite": ["DROP TRIGGER IF EXISTS audit_no_update", "DROP TRIGGER IF EXISTS audit_no_delete"],
    "postgresql": ["DROP TRIGGER IF EXISTS audit_keep ON runs_auditentry", "DROP FUNCTION IF EXISTS audit_keep"],
}


def add_triggers(apps, schema_editor):
    for statement in {"sqlite": SQLITE, "postgresql": POSTGRESQL}.get(schema_editor.connection.vendor, []):
        schema_editor.execute(statement)


def drop_triggers(apps, schema_editor):
    for statement in WITHOUT.get(schema_editor.connection.vendor, []):
        schema_editor.execute(statement)


def index_tags(apps, schema_editor):
    """SQLite has no such index: there tags are looked for in the text of the list's own."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute('CREATE INDEX "run_tags" ON "runs_run" USING gin ("tags" jsonb_path_ops)')


def forget_tags(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute('DROP INDEX "run_tags"')


REPLACED = [
    "0001_initial", "0002_checkpoints", "0003_workspaces", "0004_data_and_estimates", "0005_attempt_stop",
    "0006_output_of_placements", "0007_run_colours", "0008_lists", "0009_leftovers",
    "0010_clusters_of_projects", "0011_attempts_and_events", "0012_heartbeats", "0013_attempt_cause",
    "0015_attempt_hang", "0016_pauses", "0017_recovery", "0018_run_time", "0019_elastic", "0021_findings",
    "0022_preflight", "0024_allocations", "0026_log_rules", "0027_spares", "0028_preflight_collective",
    "0031_cluster_secrets", "0034_code_from_git", "0036_interactive", "0037_sweeps", "0039_access",
    "0040_sign_in", "0041_audit_and_secrets", "0042_isolation_minimum", "0043_privacy", "0046_slot_shares",
    "0047_sealed_texts", "0054_sealed_factors", "0055_storage_keys", "0056_audit_sent", "0058_recipe_index",
    "0059_run_in_container", "0060_job_by_name", "0061_origins", "0062_made_by_tokens", "0063_cluster_scheduling",
    "0064_run_config_and_number", "0065_project_layouts", "0066_saved_views", "0067_experiments",
    "0068_visits_links_reports",
]  # fmt: skip

USER = settings.AUTH_USER_MODEL
ID = ("id", CharField(default=new_id, editable=False, max_length=12, primary_key=True, serialize=False))
AUTO_ID = ("id", BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"))
OWNED: dict[str, Any] = {"on_delete": CASCADE}
NULL: dict[str, Any] = {"blank": True, "null": True}
MAY_GO: dict[str, Any] = {"blank": True, "null": True, "on_delete": SET_NULL}
TEXT = TextField()
SEARCHED = Lower(Concat(Cast("name", TEXT), Value("\n", output_field=TEXT), Cast("tags", TEXT), output_field=TEXT))

BESIDE = ("archived_at", "status", "project", "found_by", "number")
# fmt: off
UNIQUE = (
    ("placement", "one_placement_per_node", ("attempt", "node")),
    ("placement", "one_placement_per_node_rank", ("attempt", "node_rank")),
    ("heldslot", "a_slot_is_held_once", ("node", "index", "share")),
    ("membership", "one_membership_per_project", ("project", "user")),
    ("job", "one_version_per_job", ("project", "name", "version")),
    ("grouprole", "one_role_per_group_and_project", ("group", "project")),
    ("gitkey", "one_git_key_per_place", ("project", "kind", "place")),
    ("dataset", "one_dataset_per_name", ("project", "name")),
    ("customrole", "one_custom_role_per_name", ("project", "name")),
    ("codebundle", "one_bundle_per_digest", ("project", "sha256")),
    ("removeddata", "one_removal_per_run_and_kind", ("run", "kind")),
    ("attempt", "one_attempt_per_fence", ("run", "fence")),
    ("secret", "one_secret_per_project_and_name", ("project", "name")),
    ("secret", "one_secret_per_person_and_name", ("person", "name")),
    ("secretuse", "one_use_per_attempt_and_node", ("attempt", "name", "version", "is_personal", "node")),
    ("secretversion", "one_value_per_secret_and_number", ("secret", "number")),
    ("storagekey", "one_storage_key_per_number", ("project", "number")),
    ("storeddata", "one_measure_per_kind_and_place", ("project", "kind", "place")),
    ("trial", "one_trial_per_number", ("sweep", "number")), ("trialreport", "one_report_per_step", ("trial", "step")),
    ("trialrun", "one_run_per_seed", ("trial", "seed")),
    ("workspace", "one_workspace_per_project", ("user", "project")),
)
INDEXED = (
    ("preflight", "preflight_by_cluster", ("cluster", "-created_at")), ("runcode", "code_by_commit", ("commit",)),
    ("run", "run_of_dataset", ("project", "dataset", "created_at")), ("run", "run_of_job", ("job", "created_at", "id")),
    ("event", "event_run_at", ("run", "at")), ("event", "event_by_code", ("code",)),
    ("attempt", "attempt_by_created", ("created_at", "id")), ("trial", "trial_by_state", ("sweep", "state", "value")),
    ("sweep", "sweep_by_project", ("project", "created_at", "id")), ("sweep", "sweep_by_status", ("status",)),
)
# fmt: on


def same(*values: str) -> list[tuple[str, str]]:
    return [(one, one) for one in values]


def titled(*values: str) -> list[tuple[str, str]]:
    return [(one, one.capitalize()) for one in values]


class Migration(migrations.Migration):
    initial = True
    replaces = [("runs", name) for name in REPLACED]

    dependencies = [("auth", "0012_alter_user_first_name_max_length")]

    # fmt: off
    operations = [
        migrations.CreateModel(name="Attempt", fields=[
            ID, ("number", PositiveIntegerField()), ("fence", PositiveIntegerField()),
            ("world_size", PositiveIntegerField()), ("lease_s", FloatField(default=600.0)), ("go", JSONField(**NULL)),
            ("trace", JSONField(**NULL)), ("stop", JSONField(**NULL)),
            ("growth", JSONField(blank=True, editable=False, null=True)),
            ("told_use", PositiveBigIntegerField(default=0)), ("created_at", DateTimeField(auto_now_add=True)),
            ("go_at", DateTimeField(**NULL)), ("contact_lost_at", DateTimeField(**NULL)),
            ("settling_at", DateTimeField(**NULL)), ("ended_at", DateTimeField(**NULL)),
            ("reason_code", CharField(blank=True, max_length=60)), ("reason_sentence", TextField(blank=True)),
            ("hang", JSONField(**NULL)), ("cause", JSONField(**NULL)), ("failure", JSONField(**NULL)),
            ("slow_ranks", JSONField(blank=True, default=list)), ("alarms", JSONField(blank=True, default=list))],
            options={"ordering": ("number",)}),
        migrations.CreateModel(name="AuditHead", fields=[
            ("id", PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
            ("sequence", BigIntegerField(default=0)), ("hash", CharField(blank=True, max_length=64)),
            ("cut_sequence", BigIntegerField(default=0)), ("cut_hash", CharField(blank=True, max_length=64)),
            ("sent_sequence", BigIntegerField(null=True)), ("seal", CharField(blank=True, max_length=64))]),
        migrations.CreateModel(name="BrowserSession", fields=[
            ID, ("session_key", CharField(editable=False, max_length=40, unique=True)),
            ("method", CharField(blank=True, max_length=40)), ("address", CharField(blank=True, max_length=45)),
            ("agent", CharField(blank=True, max_length=300)), ("created_at", DateTimeField(auto_now_add=True)),
            ("last_used_at", DateTimeField())], options={"ordering": ("-last_used_at",)}),
        migrations.CreateModel(name="Cluster", fields=[
            ID, ("name", SlugField(max_length=60, unique=True)), ("engine", CharField(default="celery", max_length=20)),
            ("settings", JSONField(blank=True, default=dict)),
            ("secrets", JSONField(blank=True, default=dict, editable=False)),
            ("region", CharField(blank=True, max_length=60)), ("labels", JSONField(blank=True, default=dict)),
            ("log_rules", JSONField(blank=True, default=list)),
            ("spares", PositiveIntegerField(default=1, validators=[MaxValueValidator(10000)])),
            ("interactive", BooleanField(default=False)),
            ("isolation_minimum", PositiveSmallIntegerField(default=0, validators=[MaxValueValidator(2)])),
            ("scheduling", CharField(default="first-come", max_length=40)),
            ("created_at", DateTimeField(auto_now_add=True))], options={"ordering": ("name",)}),
        migrations.CreateModel(name="CustomRole", fields=[
            ID,
            ("name",
                CharField(max_length=40, validators=[
                    RegexValidator(
                        re.compile("^[-a-zA-Z0-9_]+\\Z"),
                        "Enter a valid “slug” consisting of letters, numbers, underscores or hyphens.", "invalid")])),
            ("permissions", JSONField(default=list)), ("created_at", DateTimeField(auto_now_add=True))],
            options={"ordering": ("name",)}),
        migrations.CreateModel(name="ErasedPerson", fields=[
            ("number", BigIntegerField(primary_key=True, serialize=False)), ("digest", CharField(max_length=64)),
            ("runs", JSONField(blank=True, default=list)), ("at", DateTimeField())],
            options={"verbose_name_plural": "erased people", "ordering": ("at",)}),
        migrations.CreateModel(name="GoneRun", fields=[
            ("id", CharField(max_length=12, primary_key=True, serialize=False)),
            ("at", DateTimeField(auto_now_add=True))]),
        migrations.CreateModel(name="Run", fields=[
            ID, ("local_id", CharField(blank=True, editable=False, max_length=32, null=True, unique=True)),
            ("name", CharField(max_length=120)), ("spec", JSONField()), ("tags", JSONField(blank=True, default=list)),
            ("found_by", GeneratedField(db_persist=True, expression=Left(SEARCHED, 500), output_field=TextField())),
            ("is_long",
                GeneratedField(db_persist=True,
                    expression=GreaterThan(Length(SEARCHED), 500), output_field=BooleanField())),
            ("recipe",
                GeneratedField(db_persist=True,
                    expression=KeyTextTransform("recipe", KeyTextTransform("task", "spec")), output_field=TextField())),
            ("dataset",
                GeneratedField(db_persist=True,
                    expression=KeyTextTransform("dataset", KeyTextTransform("data", KeyTextTransform("task", "spec"))),
                    output_field=TextField())),
            ("notes", TextField(blank=True)), ("estimate", JSONField(blank=True, editable=False, null=True)),
            ("status",
                CharField(
                    choices=same("QUEUED",
                        "SCHEDULED", "STARTING", "RUNNING", "RECOVERING", "RESIZING", "PAUSED", "STOPPING", "LOST",
                        "SUCCEEDED", "FAILED", "CANCELLED"),
                    default=Status["QUEUED"], editable=False, max_length=12)),
            ("wanted",
                CharField(
                    choices=same("run", "stop", "pause", "resize", "requeue"), default=Wanted["RUN"], editable=False,
                    max_length=8)),
            ("reason_code", CharField(blank=True, max_length=60)), ("reason_sentence", TextField(blank=True)),
            ("reason_evidence", JSONField(blank=True, default=dict)),
            ("num_nodes", PositiveIntegerField(blank=True, editable=False, null=True)),
            ("slots_per_node", PositiveIntegerField(blank=True, editable=False, null=True)),
            ("slot_shares", PositiveSmallIntegerField(default=1, editable=False)),
            ("in_container", BooleanField(editable=False, null=True)),
            ("accelerator", CharField(blank=True, editable=False, max_length=8)),
            ("node_counts", JSONField(blank=True, editable=False, null=True)),
            ("node_limit", PositiveIntegerField(blank=True, editable=False, null=True)),
            ("priority", SmallIntegerField(default=0, editable=False)),
            ("fence", PositiveIntegerField(default=0, editable=False)),
            ("shard", PositiveIntegerField(default=0, editable=False)),
            ("created_at", DateTimeField(auto_now_add=True)), ("started_at", DateTimeField(**NULL)),
            ("ended_at", DateTimeField(**NULL)), ("changed_at", DateTimeField(auto_now=True)),
            ("archived_at", DateTimeField(**NULL)), ("recovery", JSONField(blank=True, editable=False, null=True)),
            ("rewinds", JSONField(blank=True, default=list, editable=False)),
            ("recover_at", DateTimeField(editable=False, null=True)),
            ("heartbeat_at", DateTimeField(editable=False, null=True)), ("config", JSONField(blank=True, default=dict)),
            ("described_at", DateTimeField(editable=False, null=True)),
            ("number", BigIntegerField(default=next_number, editable=False, unique=True))],
            options={"ordering": ("-created_at", "-id")}),
        migrations.CreateModel(name="RunNumber", fields=[
            AUTO_ID]),
        migrations.CreateModel(name="User", fields=[
            AUTO_ID, ("password", CharField(max_length=128, verbose_name="password")),
            ("last_login", DateTimeField(blank=True, null=True, verbose_name="last login")),
            ("is_superuser",
                BooleanField(default=False,
                    help_text="Designates that this user has all permissions without explicitly assigning them.",
                    verbose_name="superuser status")),
            ("username",
                CharField(
                    error_messages={"unique": "A user with that username already exists."},
                    help_text="Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.", max_length=150,
                    unique=True, validators=[UnicodeUsernameValidator()], verbose_name="username")),
            ("first_name", CharField(blank=True, max_length=150, verbose_name="first name")),
            ("last_name", CharField(blank=True, max_length=150, verbose_name="last name")),
            ("email", EmailField(blank=True, max_length=254, verbose_name="email address")),
            ("is_staff",
                BooleanField(default=False,
                    help_text="Designates whether the user can log into this admin site.",
                    verbose_name="staff status")),
            ("is_active",
                BooleanField(default=True,
                    help_text="Designates whether this user should be treated as active. Unselect this instead of deleting accounts.",
                    verbose_name="active")),
            ("date_joined", DateTimeField(default=now, verbose_name="date joined")),
            ("home_left_at", DateTimeField(blank=True, editable=False, null=True)),
            ("home_seen_at", DateTimeField(blank=True, editable=False, null=True)),
            ("groups",
                ManyToManyField(blank=True,
                    help_text="The groups this user belongs to. A user will get all permissions granted to each of their groups.",
                    related_name="user_set", related_query_name="user", to="auth.group", verbose_name="groups")),
            ("user_permissions",
                ManyToManyField(blank=True,
                    help_text="Specific permissions for this user.", related_name="user_set", related_query_name="user",
                    to="auth.permission", verbose_name="user permissions"))],
            options={"verbose_name": "user", "verbose_name_plural": "users", "abstract": False},
            managers=[("objects", UserManager())]),
        migrations.CreateModel(name="Allocation", fields=[
            AUTO_ID,
            ("state",
                CharField(
                    choices=titled("requested", "pending", "running", "over"), default="requested", max_length=12)),
            ("job", CharField(blank=True, max_length=60)), ("reason", CharField(blank=True, max_length=80)),
            ("sentence", TextField(blank=True)), ("problem", TextField(blank=True)),
            ("hosts", JSONField(blank=True, default=list)), ("ends_at", DateTimeField(**NULL)),
            ("ending", JSONField(**NULL)), ("created_at", DateTimeField(auto_now_add=True)),
            ("submitted_at", DateTimeField(**NULL)), ("started_at", DateTimeField(**NULL)),
            ("cancelled_at", DateTimeField(**NULL)), ("over_at", DateTimeField(**NULL)),
            ("attempt", OneToOneField(on_delete=CASCADE, related_name="allocation", to="runs.attempt"))],
            options={"ordering": ("-created_at",)}),
        migrations.CreateModel(name="AuditEntry", fields=[
            ("sequence", BigIntegerField(primary_key=True, serialize=False)), ("at", DateTimeField()),
            ("actor", CharField(blank=True, max_length=200)), ("actor_number", BigIntegerField(null=True)),
            ("token", CharField(blank=True, max_length=120)), ("address", CharField(blank=True, max_length=64)),
            ("action", CharField(max_length=120)), ("object", CharField(blank=True, max_length=200)),
            ("project", CharField(blank=True, max_length=80)), ("before", TextField(blank=True)),
            ("after", TextField(blank=True)), ("result", CharField(max_length=200)),
            ("repeats", PositiveIntegerField(default=1)), ("previous_hash", CharField(max_length=64)),
            ("hash", CharField(max_length=64))],
            options={
                "ordering": ("-sequence",), "base_manager_name": "objects",
                "indexes": [
                    Index(fields=["at"], name="audit_by_time"),
                    Index(fields=["actor", "sequence"], name="audit_by_actor"),
                    Index(fields=["project", "sequence"], name="audit_by_project"),
                    Index(fields=["object", "sequence"], name="audit_by_object")]}),
        migrations.CreateModel(name="ProviderSession", fields=[
            ("session",
                OneToOneField(
                    on_delete=CASCADE, primary_key=True, related_name="provider_session", serialize=False,
                    to="runs.browsersession")),
            ("provider", CharField(max_length=40)), ("subject", CharField(max_length=255)),
            ("sid", CharField(blank=True, max_length=255)), ("locked", TextField(blank=True, editable=False)),
            ("confirmed_at", DateTimeField()), ("check_at", DateTimeField(db_index=True))]),
        migrations.AddField("browsersession",
            "user", ForeignKey(on_delete=CASCADE, related_name="browser_sessions", to=USER)),
        migrations.CreateModel(name="Membership", fields=[
            AUTO_ID,
            ("role", CharField(choices=titled("owner", "maintainer", "member", "auditor", "viewer"), max_length=12)),
            ("created_at", DateTimeField(auto_now_add=True)),
            ("custom_role", ForeignKey(**MAY_GO, related_name="memberships", to="runs.customrole")),
            ("user", ForeignKey(**OWNED, related_name="memberships", to=USER))]),
        migrations.CreateModel(name="Node", fields=[
            ID, ("name", SlugField(max_length=60, unique=True)), ("key", CharField(editable=False, max_length=64)),
            ("address", CharField(blank=True, max_length=120)), ("slots", PositiveIntegerField(default=1)),
            ("inventory", JSONField(blank=True, default=dict)), ("health", JSONField(blank=True, default=dict)),
            ("self_check", JSONField(blank=True, default=dict)), ("version", CharField(blank=True, max_length=40)),
            ("standby", JSONField(blank=True, default=dict)), ("is_draining", BooleanField(default=False)),
            ("joined_at", DateTimeField(auto_now_add=True)), ("seen_at", DateTimeField(**NULL)),
            ("removed_at", DateTimeField(**NULL)),
            ("kind", CharField(choices=titled("stays", "offered", "brought", "left"), default="stays", max_length=8)),
            ("cluster", ForeignKey(on_delete=PROTECT, related_name="nodes", to="runs.cluster"))],
            options={"ordering": ("name",)}),
        migrations.CreateModel(name="PersonalExport", fields=[
            ID, ("state", CharField(choices=titled("waiting", "ready", "failed"), default="waiting", max_length=8)),
            ("problem", TextField(blank=True)), ("size_bytes", PositiveBigIntegerField(default=0)),
            ("num_rows", PositiveIntegerField(default=0)), ("created_at", DateTimeField(auto_now_add=True)),
            ("ready_at", DateTimeField(**NULL)), ("expires_at", DateTimeField(**NULL)),
            ("user", ForeignKey(**OWNED, related_name="personal_exports", to=USER))],
            options={"ordering": ("-created_at",)}),
        migrations.CreateModel(name="Placement", fields=[
            AUTO_ID, ("node_rank", PositiveIntegerField()), ("first_rank", PositiveIntegerField()),
            ("num_ranks", PositiveIntegerField()),
            ("phase",
                CharField(
                    choices=same("preparing", "ready", "running", "stopping", "ended", "refused"),
                    default=Phase["PREPARING"], max_length=12)),
            ("report", JSONField(blank=True, default=dict)), ("reported_at", DateTimeField(**NULL)),
            ("output", JSONField(blank=True, default=dict)), ("gained", JSONField(blank=True, default=dict)),
            ("leftovers", CharField(blank=True, max_length=8)), ("done_at", DateTimeField(**NULL)),
            ("attempt", ForeignKey(**OWNED, related_name="placements", to="runs.attempt")),
            ("node", ForeignKey(on_delete=PROTECT, related_name="placements", to="runs.node"))],
            options={"ordering": ("node_rank",)}),
        migrations.CreateModel(name="HeldSlot", fields=[
            AUTO_ID, ("index", PositiveIntegerField()), ("share", PositiveSmallIntegerField(default=0)),
            ("num_shares", PositiveSmallIntegerField(default=1)),
            ("node", ForeignKey(on_delete=PROTECT, related_name="held_slots", to="runs.node")),
            ("placement", ForeignKey(**OWNED, related_name="held_slots", to="runs.placement"))],
            options={"ordering": ("index",)}),
        migrations.CreateModel(name="Preflight", fields=[
            ID, ("why", CharField(choices=[("asked", "Asked"), ("placed", "Placed")], max_length=10)),
            ("nodes", JSONField(default=list)), ("collective", JSONField(default=list)),
            ("results", JSONField(default=list)), ("created_at", DateTimeField(default=now)),
            ("ended_at", DateTimeField(**NULL)), ("asked_by", ForeignKey(**MAY_GO, related_name="+", to=USER)),
            ("attempt", ForeignKey(**NULL, **OWNED, related_name="preflights", to="runs.attempt")),
            ("cluster", ForeignKey(**OWNED, related_name="preflights", to="runs.cluster"))],
            options={"ordering": ("-created_at",)}),
        migrations.CreateModel(name="Project", fields=[
            ID, ("name", SlugField(max_length=60, unique=True)), ("created_at", DateTimeField(auto_now_add=True)),
            ("second_factor_from", CharField(blank=True, max_length=12)),
            ("regions", CharField(blank=True, max_length=300)), ("quota_bytes", PositiveBigIntegerField(**NULL)),
            ("encrypts_files", BooleanField(default=False)), ("keep_logs_days", PositiveIntegerField(**NULL)),
            ("keep_metrics_days", PositiveIntegerField(**NULL)), ("keep_media_days", PositiveIntegerField(**NULL)),
            ("keep_outputs_days", PositiveIntegerField(**NULL)),
            ("keep_checkpoints_days", PositiveIntegerField(**NULL)), ("keep_runs_days", PositiveIntegerField(**NULL)),
            ("members", ManyToManyField(related_name="projects", through="runs.Membership", to=USER))],
            options={"ordering": ("name",)}),
        migrations.AddField("membership",
            "project", ForeignKey(on_delete=CASCADE, related_name="memberships", to="runs.project")),
        migrations.CreateModel(name="Job", fields=[
            ID, ("name", CharField(max_length=120)), ("version", PositiveIntegerField(default=1)),
            ("spec", JSONField()), ("created_at", DateTimeField(auto_now_add=True)),
            ("created_by", ForeignKey(null=True, on_delete=SET_NULL, related_name="+", to=USER)),
            ("project", ForeignKey(**OWNED, related_name="jobs", to="runs.project"))],
            options={"ordering": ("name", "-version")}),
        migrations.CreateModel(name="GroupRole", fields=[
            AUTO_ID,
            ("role", CharField(choices=titled("owner", "maintainer", "member", "auditor", "viewer"), max_length=12)),
            ("origin", CharField(blank=True, editable=False, max_length=141)),
            ("created_at", DateTimeField(auto_now_add=True)),
            ("custom_role", ForeignKey(**MAY_GO, related_name="group_roles", to="runs.customrole")),
            ("group", ForeignKey(**OWNED, related_name="project_roles", to="auth.group")),
            ("project", ForeignKey(**NULL, **OWNED, related_name="group_roles", to="runs.project"))]),
        migrations.CreateModel(name="GitKey", fields=[
            ID, ("kind", CharField(choices=[("token", "Token"), ("ssh", "Ssh")], max_length=8)),
            ("place", CharField(max_length=500)), ("user", CharField(blank=True, max_length=100)),
            ("locked", TextField(editable=False)), ("host_keys", TextField(blank=True)),
            ("created_at", DateTimeField(auto_now_add=True)), ("used_at", DateTimeField(null=True)),
            ("created_by", ForeignKey(null=True, on_delete=SET_NULL, related_name="+", to=USER)),
            ("project", ForeignKey(**OWNED, related_name="git_keys", to="runs.project"))],
            options={"ordering": ("place", "kind")}),
        migrations.CreateModel(name="Dataset", fields=[
            ID, ("name", SlugField(max_length=60)), ("source", CharField(max_length=20)),
            ("location", CharField(max_length=2000)), ("options", JSONField(blank=True, default=dict)),
            ("state",
                CharField(choices=titled("waiting", "checking", "ready", "failed"), default="waiting", max_length=12)),
            ("problem", TextField(blank=True)), ("facts", JSONField(blank=True, default=dict)),
            ("size_bytes", PositiveBigIntegerField(**NULL)), ("digest", CharField(blank=True, max_length=64)),
            ("asked_at", DateTimeField(**NULL)), ("checked_at", DateTimeField(**NULL)),
            ("created_at", DateTimeField(auto_now_add=True)),
            ("cluster", ForeignKey(on_delete=PROTECT, related_name="datasets", to="runs.cluster")),
            ("created_by", ForeignKey(null=True, on_delete=SET_NULL, related_name="+", to=USER)),
            ("checked_by", ForeignKey(**MAY_GO, related_name="+", to="runs.node")),
            ("project", ForeignKey(**OWNED, related_name="datasets", to="runs.project"))],
            options={"ordering": ("name",)}),
        migrations.AddField("customrole",
            "project", ForeignKey(on_delete=CASCADE, related_name="custom_roles", to="runs.project")),
        migrations.CreateModel(name="CodeBundle", fields=[
            AUTO_ID, ("sha256", CharField(max_length=64)), ("size_bytes", PositiveIntegerField()),
            ("files", JSONField(default=list)), ("created_at", DateTimeField(auto_now_add=True)),
            ("created_by", ForeignKey(null=True, on_delete=SET_NULL, related_name="+", to=USER)),
            ("project", ForeignKey(**OWNED, related_name="bundles", to="runs.project"))]),
        migrations.AddField("cluster",
            "projects", ManyToManyField(blank=True, related_name="clusters", to="runs.project")),
        migrations.AddField("user",
            "service_of",
            ForeignKey(blank=True,
                editable=False, null=True, on_delete=CASCADE, related_name="service_accounts", to="runs.project")),
        migrations.CreateModel(name="ProvidedGroup", fields=[
            ("group",
                OneToOneField(
                    on_delete=CASCADE, primary_key=True, related_name="provided", serialize=False, to="auth.group")),
            ("provider", CharField(max_length=40)), ("name", CharField(max_length=100)),
            ("external_id", CharField(blank=True, max_length=255)), ("is_provisioned", BooleanField(default=False)),
            ("created_at", DateTimeField(auto_now_add=True))],
            options={
                "constraints": [
                    UniqueConstraint(fields=("provider", "name"), name="one_group_per_provider_and_name")]}),
        migrations.CreateModel(name="ProvisioningToken", fields=[
            ID, ("provider", CharField(max_length=40)),
            ("digest", CharField(editable=False, max_length=64, unique=True)),
            ("created_at", DateTimeField(auto_now_add=True)), ("last_used_at", DateTimeField(**NULL)),
            ("last_address", CharField(blank=True, max_length=45)), ("revoked_at", DateTimeField(**NULL)),
            ("created_by", ForeignKey(null=True, on_delete=SET_NULL, related_name="+", to=USER))],
            options={"ordering": ("-created_at",)}),
        migrations.CreateModel(name="RunCode", fields=[
            ("run",
                OneToOneField(
                    on_delete=CASCADE, primary_key=True, related_name="code", serialize=False, to="runs.run")),
            ("sha256", CharField(max_length=64)), ("url", CharField(max_length=1000)),
            ("commit", CharField(max_length=64)), ("branch", CharField(blank=True, max_length=250)),
            ("path", CharField(blank=True, max_length=500)), ("subject", CharField(blank=True, max_length=300)),
            ("author", CharField(blank=True, max_length=200)), ("authored_at", DateTimeField(null=True)),
            ("previous", CharField(blank=True, max_length=64)), ("remarks", JSONField(blank=True, default=list)),
            ("fetch_s", FloatField(default=0))]),
        migrations.CreateModel(name="RunTime", fields=[
            ("run",
                OneToOneField(
                    on_delete=CASCADE, primary_key=True, related_name="time", serialize=False, to="runs.run")),
            ("ended_at", DateTimeField()), ("queued_s", FloatField()), ("starting_s", FloatField()),
            ("productive_s", FloatField()), ("recomputed_s", FloatField()), ("checkpoint_s", FloatField()),
            ("detection_s", FloatField()), ("restart_s", FloatField()), ("paused_s", FloatField())]),
        migrations.AddField("run",
            "cluster", ForeignKey(blank=True, null=True, on_delete=PROTECT, related_name="runs", to="runs.cluster")),
        migrations.AddField("run",
            "created_by", ForeignKey(null=True, on_delete=SET_NULL, related_name="runs", to=USER)),
        migrations.AddField("run", "job", ForeignKey(**MAY_GO, related_name="runs", to="runs.job")),
        migrations.AddField("run", "parent", ForeignKey(**MAY_GO, related_name="children", to="runs.run")),
        migrations.AddField("run", "project", ForeignKey(on_delete=CASCADE, related_name="runs", to="runs.project")),
        migrations.CreateModel(name="RemovedData", fields=[
            AUTO_ID, ("kind", CharField(max_length=20)), ("at", DateTimeField()),
            ("run", ForeignKey(**OWNED, related_name="removed_data", to="runs.run"))],
            options={"verbose_name_plural": "removed data"}),
        migrations.CreateModel(name="Event", fields=[
            AUTO_ID, ("at", DateTimeField(default=now)), ("code", CharField(max_length=60)), ("sentence", TextField()),
            ("data", JSONField(blank=True, default=dict)), ("actor", ForeignKey(**MAY_GO, related_name="+", to=USER)),
            ("attempt", ForeignKey(**NULL, **OWNED, related_name="events", to="runs.attempt")),
            ("run", ForeignKey(**OWNED, related_name="events", to="runs.run"))], options={"ordering": ("at", "id")}),
        migrations.AddField("attempt", "run", ForeignKey(on_delete=CASCADE, related_name="attempts", to="runs.run")),
        migrations.CreateModel(name="Secret", fields=[
            ID, ("name", CharField(max_length=100)), ("version", PositiveIntegerField(default=0)),
            ("created_at", DateTimeField(auto_now_add=True)), ("changed_at", DateTimeField(auto_now_add=True)),
            ("used_at", DateTimeField(null=True)),
            ("created_by", ForeignKey(null=True, on_delete=SET_NULL, related_name="+", to=USER)),
            ("person", ForeignKey(null=True, on_delete=CASCADE, related_name="secrets", to=USER)),
            ("project", ForeignKey(null=True, on_delete=CASCADE, related_name="secrets", to="runs.project"))],
            options={"ordering": ("name",)}),
        migrations.CreateModel(name="SecretUse", fields=[
            AUTO_ID, ("name", CharField(max_length=100)), ("version", PositiveIntegerField()),
            ("is_personal", BooleanField(default=False)), ("node", CharField(max_length=120)),
            ("at", DateTimeField(auto_now_add=True)),
            ("attempt", ForeignKey(**OWNED, related_name="secret_uses", to="runs.attempt")),
            ("secret", ForeignKey(null=True, on_delete=SET_NULL, related_name="uses", to="runs.secret"))],
            options={"ordering": ("name", "at")}),
        migrations.CreateModel(name="SecretVersion", fields=[
            AUTO_ID, ("number", PositiveIntegerField()), ("key_id", CharField(max_length=200)),
            ("wrapped_key", TextField()), ("ciphertext", TextField()), ("created_at", DateTimeField(auto_now_add=True)),
            ("created_by", ForeignKey(null=True, on_delete=SET_NULL, related_name="+", to=USER)),
            ("secret", ForeignKey(**OWNED, related_name="versions", to="runs.secret"))],
            options={"ordering": ("-number",)}),
        migrations.CreateModel(name="SignInLink", fields=[
            ID, ("digest", CharField(editable=False, max_length=64, unique=True)),
            ("created_at", DateTimeField(auto_now_add=True)), ("expires_at", DateTimeField()),
            ("used_at", DateTimeField(**NULL)), ("user", ForeignKey(**OWNED, related_name="sign_in_links", to=USER))]),
        migrations.CreateModel(name="StorageKey", fields=[
            AUTO_ID, ("number", PositiveIntegerField()), ("key_id", CharField(max_length=200)),
            ("wrapped_key", TextField()), ("created_at", DateTimeField(auto_now_add=True)),
            ("destroyed_at", DateTimeField(null=True)),
            ("project", ForeignKey(**OWNED, related_name="storage_keys", to="runs.project"))],
            options={"ordering": ("number",)}),
        migrations.CreateModel(name="StoredData", fields=[
            AUTO_ID, ("kind", CharField(max_length=20)), ("place", CharField(max_length=300)),
            ("region", CharField(blank=True, max_length=60)), ("bytes", PositiveBigIntegerField(default=0)),
            ("number", PositiveBigIntegerField(default=0)), ("measured_at", DateTimeField()),
            ("project", ForeignKey(**OWNED, related_name="stored_data", to="runs.project"))],
            options={"verbose_name_plural": "stored data", "ordering": ("kind", "place")}),
        migrations.CreateModel(name="Sweep", fields=[
            ID, ("name", CharField(max_length=120)), ("spec", JSONField()), ("base_spec", JSONField()),
            ("status",
                CharField(
                    choices=same("RUNNING", "PAUSED", "STOPPING", "SUCCEEDED", "FAILED", "CANCELLED"),
                    default=SweepStatus["RUNNING"], max_length=10)),
            ("reason_code", CharField(blank=True, max_length=60)), ("reason_sentence", TextField(blank=True)),
            ("created_at", DateTimeField(default=now)), ("ended_at", DateTimeField(**NULL)),
            ("active_since", DateTimeField(**NULL)), ("active_s", FloatField(default=0.0)),
            ("study_state", JSONField(blank=True, default=dict)), ("cursor", PositiveBigIntegerField(default=0)),
            ("cluster", ForeignKey(**MAY_GO, related_name="sweeps", to="runs.cluster")),
            ("created_by", ForeignKey(null=True, on_delete=SET_NULL, related_name="sweeps", to=USER)),
            ("project", ForeignKey(**OWNED, related_name="sweeps", to="runs.project"))],
            options={"ordering": ("-created_at", "-id")}),
        migrations.CreateModel(name="Token", fields=[
            ID, ("name", CharField(max_length=80)), ("digest", CharField(editable=False, max_length=64, unique=True)),
            ("scopes", JSONField(**NULL)), ("project_ids", JSONField(**NULL)),
            ("created_at", DateTimeField(auto_now_add=True)), ("last_used_at", DateTimeField(**NULL)),
            ("last_address", CharField(blank=True, max_length=45)), ("expires_at", DateTimeField(**NULL)),
            ("revoked_at", DateTimeField(**NULL)),
            ("by_token", ForeignKey(**NULL, **OWNED, related_name="+", to="runs.token")),
            ("user", ForeignKey(**OWNED, related_name="tokens", to=USER))], options={"ordering": ("-created_at",)}),
        migrations.CreateModel(name="JoinToken", fields=[
            ID, ("digest", CharField(editable=False, max_length=64, unique=True)),
            ("created_at", DateTimeField(auto_now_add=True)), ("expires_at", DateTimeField()),
            ("used_at", DateTimeField(**NULL)),
            ("cluster", ForeignKey(**OWNED, related_name="join_tokens", to="runs.cluster")),
            ("created_by", ForeignKey(null=True, on_delete=SET_NULL, related_name="+", to=USER)),
            ("node", ForeignKey(**MAY_GO, related_name="+", to="runs.node")),
            ("placement",
                OneToOneField(blank=True,
                    null=True, on_delete=CASCADE, related_name="join_token", to="runs.placement")),
            ("by_token", ForeignKey(**NULL, **OWNED, related_name="+", to="runs.token"))]),
        migrations.CreateModel(name="Invitation", fields=[
            ID, ("email", EmailField(blank=True, max_length=254)),
            ("role",
                CharField(
                    choices=titled("owner", "maintainer", "member", "auditor", "viewer"), default="member",
                    max_length=12)),
            ("digest", CharField(editable=False, max_length=64, unique=True)),
            ("created_at", DateTimeField(auto_now_add=True)), ("expires_at", DateTimeField()),
            ("accepted_at", DateTimeField(**NULL)), ("accepted_by", ForeignKey(**MAY_GO, related_name="+", to=USER)),
            ("created_by", ForeignKey(null=True, on_delete=SET_NULL, related_name="+", to=USER)),
            ("project", ForeignKey(**OWNED, related_name="invitations", to="runs.project")),
            ("by_token", ForeignKey(**NULL, **OWNED, related_name="+", to="runs.token"))],
            options={"ordering": ("-created_at",)}),
        migrations.CreateModel(name="Trial", fields=[
            AUTO_ID, ("number", PositiveIntegerField()),
            ("state",
                CharField(
                    choices=same("WAITING", "RUNNING", "COMPLETE", "PRUNED", "FAILED"), default=TrialState["WAITING"],
                    max_length=8)),
            ("reason", TextField(blank=True)), ("parameters", JSONField(default=dict)), ("value", FloatField(**NULL)),
            ("values", JSONField(blank=True, default=list)), ("parent_step", BigIntegerField(**NULL)),
            ("by_hand", BooleanField(default=False)), ("started_at", DateTimeField(**NULL)),
            ("ended_at", DateTimeField(**NULL)), ("steps", BigIntegerField(**NULL)),
            ("pruned_at_step", BigIntegerField(**NULL)), ("is_promoted", BooleanField(default=False)),
            ("system_attributes", JSONField(blank=True, default=dict)),
            ("parent", ForeignKey(**MAY_GO, related_name="children", to="runs.trial")),
            ("run", OneToOneField(**MAY_GO, related_name="trial", to="runs.run")),
            ("sweep", ForeignKey(**OWNED, related_name="trials", to="runs.sweep"))],
            options={"ordering": ("sweep", "number")}),
        migrations.AddField("sweep", "best", ForeignKey(**MAY_GO, related_name="+", to="runs.trial")),
        migrations.CreateModel(name="TrialReport", fields=[
            AUTO_ID, ("step", BigIntegerField()), ("value", FloatField()),
            ("trial", ForeignKey(**OWNED, related_name="reports", to="runs.trial"))],
            options={"ordering": ("trial", "step")}),
        migrations.CreateModel(name="TrialRun", fields=[
            AUTO_ID, ("seed", PositiveIntegerField()),
            ("run", OneToOneField(**MAY_GO, related_name="trial_seed", to="runs.run")),
            ("trial", ForeignKey(**OWNED, related_name="further_runs", to="runs.trial"))]),
        migrations.CreateModel(name="Workspace", fields=[
            AUTO_ID, ("state", JSONField(default=dict)), ("run_colours", JSONField(blank=True, default=dict)),
            ("saved_at", DateTimeField(auto_now=True)),
            ("project", ForeignKey(**OWNED, related_name="workspaces", to="runs.project")),
            ("user", ForeignKey(**NULL, **OWNED, related_name="workspaces", to=USER))]),
        migrations.CreateModel(name="ClusterRole", fields=[
            AUTO_ID, ("role", CharField(choices=[("runner", "Runner"), ("operator", "Operator")], max_length=12)),
            ("created_at", DateTimeField(auto_now_add=True)),
            ("cluster", ForeignKey(**NULL, **OWNED, related_name="group_roles", to="runs.cluster")),
            ("group", ForeignKey(**OWNED, related_name="cluster_roles", to="auth.group"))],
            options={
                "constraints": [
                    UniqueConstraint(fields=("group", "cluster"), name="one_role_per_group_and_cluster"),
                    UniqueConstraint(
                        condition=Q(("cluster", None)), fields=("group",),
                        name="one_role_per_group_on_all_clusters")]}),
        migrations.CreateModel(name="Consent", fields=[
            AUTO_ID, ("digest", CharField(max_length=64)), ("at", DateTimeField(auto_now_add=True)),
            ("user", ForeignKey(**OWNED, related_name="consents", to=USER))],
            options={"constraints": [UniqueConstraint(fields=("user", "digest"), name="one_consent_per_text")]}),
        migrations.CreateModel(name="IdempotencyKey", fields=[
            AUTO_ID, ("key", CharField(max_length=200)), ("path", CharField(max_length=300)),
            ("body_digest", CharField(max_length=64)), ("status_code", PositiveSmallIntegerField(default=0)),
            ("answer", TextField(blank=True)), ("created_at", DateTimeField(auto_now_add=True)),
            ("user", ForeignKey(**OWNED, related_name="+", to=USER))],
            options={"constraints": [UniqueConstraint(fields=("user", "key"), name="one_answer_per_key")]}),
        migrations.CreateModel(name="Identity", fields=[
            AUTO_ID, ("provider", CharField(max_length=40)), ("subject", CharField(blank=True, max_length=255)),
            ("external_id", CharField(blank=True, max_length=255)), ("username", CharField(blank=True, max_length=150)),
            ("is_provisioned", BooleanField(default=False)), ("keeps_person", BooleanField(default=False)),
            ("is_disabled_by_provider", BooleanField(default=False)), ("created_at", DateTimeField(auto_now_add=True)),
            ("signed_in_at", DateTimeField(**NULL)), ("user", ForeignKey(**OWNED, related_name="identities", to=USER))],
            options={
                "constraints": [
                    UniqueConstraint(
                        condition=Q(("subject", ""), _negated=True), fields=("provider", "subject"),
                        name="one_identity_per_subject"),
                    UniqueConstraint(
                        condition=Q(("username", ""), _negated=True), fields=("provider", "username"),
                        name="one_identity_per_username"),
                    UniqueConstraint(fields=("provider", "user"), name="one_identity_per_provider")]}),
        migrations.CreateModel(name="SavedView", fields=[
            ID, ("name", CharField(max_length=60)), ("query", TextField()), ("is_default", BooleanField(default=False)),
            ("saved_at", DateTimeField(auto_now=True)),
            ("created_by", ForeignKey(null=True, on_delete=SET_NULL, related_name="+", to=USER)),
            ("owner", ForeignKey(null=True, on_delete=CASCADE, related_name="views", to=USER)),
            ("project", ForeignKey(null=True, on_delete=CASCADE, related_name="views", to="runs.project"))],
            options={
                "constraints": [
                    CheckConstraint(
                        condition=Q(
                            Q(("owner", None), ("project__isnull", False)),
                            Q(("owner__isnull", False), ("project", None)), _connector="OR"),
                        name="view_of_one"),
                    UniqueConstraint(fields=("owner", "name"), name="one_view_of_a_name_each"),
                    UniqueConstraint(fields=("project", "name"), name="one_view_of_a_name_in_project")]}),
        migrations.CreateModel(name="Experiment", fields=[
            ID, ("name", CharField(max_length=500)), ("tags", JSONField(blank=True, default=dict)),
            ("created_at", DateTimeField(auto_now_add=True)), ("changed_at", DateTimeField(auto_now=True)),
            ("archived_at", DateTimeField(**NULL)),
            ("project", ForeignKey(**OWNED, related_name="experiments", to="runs.project"))],
            options={
                "ordering": ("name",),
                "constraints": [UniqueConstraint(fields=("project", "name"), name="one_experiment_per_name")]}),
        migrations.CreateModel(name="SharedLink", fields=[
            ID, ("object", TextField()), ("digest", CharField(editable=False, max_length=64, unique=True)),
            ("created_at", DateTimeField(auto_now_add=True)), ("expires_at", DateTimeField()),
            ("revoked_at", DateTimeField(**NULL)), ("num_opened", PositiveIntegerField(default=0)),
            ("first_opened_at", DateTimeField(**NULL)), ("last_opened_at", DateTimeField(**NULL)),
            ("project", ForeignKey(**OWNED, related_name="shared_links", to="runs.project")),
            ("by_token", ForeignKey(**NULL, **OWNED, related_name="+", to="runs.token")),
            ("created_by", ForeignKey(null=True, on_delete=SET_NULL, related_name="shared_links", to=USER))],
            options={"ordering": ("-created_at",)}),
        migrations.CreateModel(name="Report", fields=[
            ID, ("title", CharField(max_length=200)), ("version", PositiveIntegerField(default=1)),
            ("is_archived", BooleanField(default=False)), ("created_at", DateTimeField(auto_now_add=True)),
            ("changed_at", DateTimeField(auto_now_add=True)),
            ("created_by", ForeignKey(null=True, on_delete=SET_NULL, related_name="+", to=USER)),
            ("project", ForeignKey(**OWNED, related_name="reports", to="runs.project"))]),
        migrations.CreateModel(name="ReportComment", fields=[
            AUTO_ID, ("number", PositiveIntegerField()), ("text", TextField(validators=[MaxLengthValidator(10000)])),
            ("at", DateTimeField(auto_now_add=True)),
            ("author", ForeignKey(null=True, on_delete=SET_NULL, related_name="+", to=USER)),
            ("report", ForeignKey(**OWNED, related_name="comments", to="runs.report"))]),
        migrations.CreateModel(name="ReportVersion", fields=[
            AUTO_ID, ("number", PositiveIntegerField(default=1)), ("title", CharField(max_length=200)),
            ("body", TextField(blank=True, validators=[MaxLengthValidator(100000)])), ("pinned", JSONField(**NULL)),
            ("at", DateTimeField(auto_now_add=True)),
            ("author", ForeignKey(null=True, on_delete=SET_NULL, related_name="+", to=USER)),
            ("report", ForeignKey(**OWNED, related_name="versions", to="runs.report"))],
            options={"constraints": [UniqueConstraint(fields=("report", "number"), name="one_version_of_a_number")]}),
        migrations.AddConstraint("preflight",
            UniqueConstraint(
                condition=Q(("ended_at", None)), fields=("cluster",), name="one_open_preflight_per_cluster")),
        migrations.AddIndex("job",
            ListIndex(beside=("project", "id"), fields=["name", "-version"], name="job_by_name")),
        migrations.AddConstraint("grouprole",
            UniqueConstraint(condition=Q(("project", None)), fields=("group",), name="one_role_per_group_everywhere")),
        migrations.AddIndex("run",
            ListIndex(
                beside=("status", "project", "local_id", "archived_at"), condition=Q(("ended_at", None)),
                fields=["created_at", "id"], name="run_live")),
        migrations.AddIndex("run",
            ListIndex(
                beside=("wanted", "project"), fields=["cluster", "status", "priority", "created_at", "id"],
                name="run_queue")),
        migrations.AddIndex("run", Index(condition=Q(("is_long", True)), fields=["id"], name="run_long")),
        migrations.AddIndex("run",
            Index(
                condition=Q(("ended_at__isnull", False)), fields=["cluster", "recipe", "ended_at"],
                name="run_of_recipe")),
        migrations.AddConstraint("attempt",
            UniqueConstraint(condition=Q(("ended_at", None)), fields=("run",), name="one_live_attempt_per_run")),
        migrations.AddConstraint("secret",
            CheckConstraint(
                condition=Q(
                    Q(("person__isnull", False), ("project__isnull", True)),
                    Q(("person__isnull", True), ("project__isnull", False)), _connector="OR"),
                name="secret_of_a_project_or_a_person")),
        *(
            migrations.AddIndex("run", ListIndex(fields=(field, "id"), beside=BESIDE, name=name, condition=condition))
            for name, field, condition in (
                ("run_by_created", "created_at", None), ("run_by_name", "name", None),
                ("run_by_status", "status", None), ("run_by_ended", "ended_at", Q(ended_at__isnull=False)))
        ),
        migrations.AddIndex("run",
            Index(fields=("described_at",), condition=Q(described_at__isnull=False), name="run_described")),
        migrations.AddConstraint("workspace",
            UniqueConstraint(condition=Q(("user", None)), fields=("project",), name="one_layout_per_project")),
        *(migrations.AddConstraint(model, UniqueConstraint(fields=fields, name=name)) for model, name, fields in UNIQUE),
        *(migrations.AddIndex(model, Index(fields=fields, name=name)) for model, name, fields in INDEXED),
        migrations.RunPython(index_tags, forget_tags),
        migrations.RunPython(add_triggers, drop_triggers),
    ]
