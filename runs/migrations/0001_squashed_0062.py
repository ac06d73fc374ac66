"""All tables. A database that one of the migrations named below made goes on from here when it has all of them."""

from __future__ import annotations

import re

import django.contrib.auth.models
import django.contrib.auth.validators
import django.core.validators
import django.db.models.deletion
import django.db.models.fields.json
import django.db.models.functions.comparison
import django.db.models.functions.text
import django.db.models.lookups
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

import runs.models.indexes
import runs.values.ids
import trainyard.contract.statuses

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
    "0001_initial",
    "0002_checkpoints",
    "0003_workspaces",
    "0004_data_and_estimates",
    "0005_attempt_stop",
    "0006_output_of_placements",
    "0007_run_colours",
    "0008_lists",
    "0009_leftovers",
    "0010_clusters_of_projects",
    "0011_attempts_and_events",
    "0012_heartbeats",
    "0013_attempt_cause",
    "0015_attempt_hang",
    "0016_pauses",
    "0017_recovery",
    "0018_run_time",
    "0019_elastic",
    "0021_findings",
    "0022_preflight",
    "0024_allocations",
    "0026_log_rules",
    "0027_spares",
    "0028_preflight_collective",
    "0031_cluster_secrets",
    "0034_code_from_git",
    "0036_interactive",
    "0037_sweeps",
    "0039_access",
    "0040_sign_in",
    "0041_audit_and_secrets",
    "0042_isolation_minimum",
    "0043_privacy",
    "0046_slot_shares",
    "0047_sealed_texts",
    "0054_sealed_factors",
    "0055_storage_keys",
    "0056_audit_sent",
    "0058_recipe_index",
    "0059_run_in_container",
    "0060_job_by_name",
    "0061_origins",
    "0062_made_by_tokens",
]


class Migration(migrations.Migration):
    initial = True
    replaces = [("runs", name) for name in REPLACED]

    dependencies = [("auth", "0012_alter_user_first_name_max_length")]

    operations = [
        migrations.CreateModel(
            name="Attempt",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("fence", models.PositiveIntegerField()),
                ("world_size", models.PositiveIntegerField()),
                ("lease_s", models.FloatField(default=600.0)),
                ("go", models.JSONField(blank=True, null=True)),
                ("trace", models.JSONField(blank=True, null=True)),
                ("stop", models.JSONField(blank=True, null=True)),
                ("growth", models.JSONField(blank=True, editable=False, null=True)),
                ("told_use", models.PositiveBigIntegerField(default=0)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("go_at", models.DateTimeField(blank=True, null=True)),
                ("contact_lost_at", models.DateTimeField(blank=True, null=True)),
                ("settling_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("reason_code", models.CharField(blank=True, max_length=60)),
                ("reason_sentence", models.TextField(blank=True)),
                ("hang", models.JSONField(blank=True, null=True)),
                ("cause", models.JSONField(blank=True, null=True)),
                ("failure", models.JSONField(blank=True, null=True)),
                ("slow_ranks", models.JSONField(blank=True, default=list)),
                ("alarms", models.JSONField(blank=True, default=list)),
            ],
            options={"ordering": ("number",)},
        ),
        migrations.CreateModel(
            name="AuditHead",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("sequence", models.BigIntegerField(default=0)),
                ("hash", models.CharField(blank=True, max_length=64)),
                ("cut_sequence", models.BigIntegerField(default=0)),
                ("cut_hash", models.CharField(blank=True, max_length=64)),
                ("sent_sequence", models.BigIntegerField(null=True)),
                ("seal", models.CharField(blank=True, max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="BrowserSession",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                ("session_key", models.CharField(editable=False, max_length=40, unique=True)),
                ("method", models.CharField(blank=True, max_length=40)),
                ("address", models.CharField(blank=True, max_length=45)),
                ("agent", models.CharField(blank=True, max_length=300)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("last_used_at", models.DateTimeField()),
            ],
            options={"ordering": ("-last_used_at",)},
        ),
        migrations.CreateModel(
            name="Cluster",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.SlugField(max_length=60, unique=True)),
                ("engine", models.CharField(default="celery", max_length=20)),
                ("settings", models.JSONField(blank=True, default=dict)),
                ("secrets", models.JSONField(blank=True, default=dict, editable=False)),
                ("region", models.CharField(blank=True, max_length=60)),
                ("labels", models.JSONField(blank=True, default=dict)),
                ("log_rules", models.JSONField(blank=True, default=list)),
                (
                    "spares",
                    models.PositiveIntegerField(
                        default=1, validators=[django.core.validators.MaxValueValidator(10000)]
                    ),
                ),
                ("interactive", models.BooleanField(default=False)),
                (
                    "isolation_minimum",
                    models.PositiveSmallIntegerField(
                        default=0, validators=[django.core.validators.MaxValueValidator(2)]
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={"ordering": ("name",)},
        ),
        migrations.CreateModel(
            name="CustomRole",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                (
                    "name",
                    models.CharField(
                        max_length=40,
                        validators=[
                            django.core.validators.RegexValidator(
                                re.compile("^[-a-zA-Z0-9_]+\\Z"),
                                "Enter a valid “slug” consisting of letters, numbers, underscores or hyphens.",
                                "invalid",
                            )
                        ],
                    ),
                ),
                ("permissions", models.JSONField(default=list)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={"ordering": ("name",)},
        ),
        migrations.CreateModel(
            name="ErasedPerson",
            fields=[
                ("number", models.BigIntegerField(primary_key=True, serialize=False)),
                ("digest", models.CharField(max_length=64)),
                ("runs", models.JSONField(blank=True, default=list)),
                ("at", models.DateTimeField()),
            ],
            options={"verbose_name_plural": "erased people", "ordering": ("at",)},
        ),
        migrations.CreateModel(
            name="GoneRun",
            fields=[
                ("id", models.CharField(max_length=12, primary_key=True, serialize=False)),
                ("at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                ("local_id", models.CharField(blank=True, editable=False, max_length=32, null=True, unique=True)),
                ("name", models.CharField(max_length=120)),
                ("spec", models.JSONField()),
                ("tags", models.JSONField(blank=True, default=list)),
                (
                    "found_by",
                    models.GeneratedField(
                        db_persist=True,
                        expression=django.db.models.functions.text.Left(
                            django.db.models.functions.text.Lower(
                                django.db.models.functions.text.Concat(
                                    django.db.models.functions.comparison.Cast("name", models.TextField()),
                                    models.Value("\n", output_field=models.TextField()),
                                    django.db.models.functions.comparison.Cast("tags", models.TextField()),
                                    output_field=models.TextField(),
                                )
                            ),
                            500,
                        ),
                        output_field=models.TextField(),
                    ),
                ),
                (
                    "is_long",
                    models.GeneratedField(
                        db_persist=True,
                        expression=django.db.models.lookups.GreaterThan(
                            django.db.models.functions.text.Length(
                                django.db.models.functions.text.Lower(
                                    django.db.models.functions.text.Concat(
                                        django.db.models.functions.comparison.Cast("name", models.TextField()),
                                        models.Value("\n", output_field=models.TextField()),
                                        django.db.models.functions.comparison.Cast("tags", models.TextField()),
                                        output_field=models.TextField(),
                                    )
                                )
                            ),
                            500,
                        ),
                        output_field=models.BooleanField(),
                    ),
                ),
                (
                    "recipe",
                    models.GeneratedField(
                        db_persist=True,
                        expression=django.db.models.fields.json.KeyTextTransform(
                            "recipe", django.db.models.fields.json.KeyTextTransform("task", "spec")
                        ),
                        output_field=models.TextField(),
                    ),
                ),
                (
                    "dataset",
                    models.GeneratedField(
                        db_persist=True,
                        expression=django.db.models.fields.json.KeyTextTransform(
                            "dataset",
                            django.db.models.fields.json.KeyTextTransform(
                                "data", django.db.models.fields.json.KeyTextTransform("task", "spec")
                            ),
                        ),
                        output_field=models.TextField(),
                    ),
                ),
                ("notes", models.TextField(blank=True)),
                ("estimate", models.JSONField(blank=True, editable=False, null=True)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("QUEUED", "QUEUED"),
                            ("SCHEDULED", "SCHEDULED"),
                            ("STARTING", "STARTING"),
                            ("RUNNING", "RUNNING"),
                            ("RECOVERING", "RECOVERING"),
                            ("RESIZING", "RESIZING"),
                            ("PAUSED", "PAUSED"),
                            ("STOPPING", "STOPPING"),
                            ("LOST", "LOST"),
                            ("SUCCEEDED", "SUCCEEDED"),
                            ("FAILED", "FAILED"),
                            ("CANCELLED", "CANCELLED"),
                        ],
                        default=trainyard.contract.statuses.Status["QUEUED"],
                        editable=False,
                        max_length=12,
                    ),
                ),
                (
                    "wanted",
                    models.CharField(
                        choices=[
                            ("run", "run"),
                            ("stop", "stop"),
                            ("pause", "pause"),
                            ("resize", "resize"),
                            ("requeue", "requeue"),
                        ],
                        default=trainyard.contract.statuses.Wanted["RUN"],
                        editable=False,
                        max_length=8,
                    ),
                ),
                ("reason_code", models.CharField(blank=True, max_length=60)),
                ("reason_sentence", models.TextField(blank=True)),
                ("reason_evidence", models.JSONField(blank=True, default=dict)),
                ("num_nodes", models.PositiveIntegerField(blank=True, editable=False, null=True)),
                ("slots_per_node", models.PositiveIntegerField(blank=True, editable=False, null=True)),
                ("slot_shares", models.PositiveSmallIntegerField(default=1, editable=False)),
                ("in_container", models.BooleanField(editable=False, null=True)),
                ("accelerator", models.CharField(blank=True, editable=False, max_length=8)),
                ("node_counts", models.JSONField(blank=True, editable=False, null=True)),
                ("node_limit", models.PositiveIntegerField(blank=True, editable=False, null=True)),
                ("priority", models.SmallIntegerField(default=0, editable=False)),
                ("fence", models.PositiveIntegerField(default=0, editable=False)),
                ("shard", models.PositiveIntegerField(default=0, editable=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("changed_at", models.DateTimeField(auto_now=True)),
                ("archived_at", models.DateTimeField(blank=True, null=True)),
                ("recovery", models.JSONField(blank=True, editable=False, null=True)),
                ("rewinds", models.JSONField(blank=True, default=list, editable=False)),
                ("recover_at", models.DateTimeField(editable=False, null=True)),
                ("heartbeat_at", models.DateTimeField(editable=False, null=True)),
            ],
            options={"ordering": ("-created_at", "-id")},
        ),
        migrations.CreateModel(
            name="User",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("password", models.CharField(max_length=128, verbose_name="password")),
                ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                (
                    "is_superuser",
                    models.BooleanField(
                        default=False,
                        help_text="Designates that this user has all permissions without explicitly assigning them.",
                        verbose_name="superuser status",
                    ),
                ),
                (
                    "username",
                    models.CharField(
                        error_messages={"unique": "A user with that username already exists."},
                        help_text="Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.",
                        max_length=150,
                        unique=True,
                        validators=[django.contrib.auth.validators.UnicodeUsernameValidator()],
                        verbose_name="username",
                    ),
                ),
                ("first_name", models.CharField(blank=True, max_length=150, verbose_name="first name")),
                ("last_name", models.CharField(blank=True, max_length=150, verbose_name="last name")),
                ("email", models.EmailField(blank=True, max_length=254, verbose_name="email address")),
                (
                    "is_staff",
                    models.BooleanField(
                        default=False,
                        help_text="Designates whether the user can log into this admin site.",
                        verbose_name="staff status",
                    ),
                ),
                (
                    "is_active",
                    models.BooleanField(
                        default=True,
                        help_text="Designates whether this user should be treated as active. Unselect this instead of deleting accounts.",
                        verbose_name="active",
                    ),
                ),
                ("date_joined", models.DateTimeField(default=django.utils.timezone.now, verbose_name="date joined")),
                (
                    "groups",
                    models.ManyToManyField(
                        blank=True,
                        help_text="The groups this user belongs to. A user will get all permissions granted to each of their groups.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.group",
                        verbose_name="groups",
                    ),
                ),
                (
                    "user_permissions",
                    models.ManyToManyField(
                        blank=True,
                        help_text="Specific permissions for this user.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.permission",
                        verbose_name="user permissions",
                    ),
                ),
            ],
            options={"verbose_name": "user", "verbose_name_plural": "users", "abstract": False},
            managers=[("objects", django.contrib.auth.models.UserManager())],
        ),
        migrations.CreateModel(
            name="Allocation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("requested", "Requested"),
                            ("pending", "Pending"),
                            ("running", "Running"),
                            ("over", "Over"),
                        ],
                        default="requested",
                        max_length=12,
                    ),
                ),
                ("job", models.CharField(blank=True, max_length=60)),
                ("reason", models.CharField(blank=True, max_length=80)),
                ("sentence", models.TextField(blank=True)),
                ("problem", models.TextField(blank=True)),
                ("hosts", models.JSONField(blank=True, default=list)),
                ("ends_at", models.DateTimeField(blank=True, null=True)),
                ("ending", models.JSONField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("submitted_at", models.DateTimeField(blank=True, null=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("cancelled_at", models.DateTimeField(blank=True, null=True)),
                ("over_at", models.DateTimeField(blank=True, null=True)),
                (
                    "attempt",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="allocation", to="runs.attempt"
                    ),
                ),
            ],
            options={"ordering": ("-created_at",)},
        ),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("sequence", models.BigIntegerField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                ("actor", models.CharField(blank=True, max_length=200)),
                ("actor_number", models.BigIntegerField(null=True)),
                ("token", models.CharField(blank=True, max_length=120)),
                ("address", models.CharField(blank=True, max_length=64)),
                ("action", models.CharField(max_length=120)),
                ("object", models.CharField(blank=True, max_length=200)),
                ("project", models.CharField(blank=True, max_length=80)),
                ("before", models.TextField(blank=True)),
                ("after", models.TextField(blank=True)),
                ("result", models.CharField(max_length=200)),
                ("repeats", models.PositiveIntegerField(default=1)),
                ("previous_hash", models.CharField(max_length=64)),
                ("hash", models.CharField(max_length=64)),
            ],
            options={
                "ordering": ("-sequence",),
                "base_manager_name": "objects",
                "indexes": [
                    models.Index(fields=["at"], name="audit_by_time"),
                    models.Index(fields=["actor", "sequence"], name="audit_by_actor"),
                    models.Index(fields=["project", "sequence"], name="audit_by_project"),
                    models.Index(fields=["object", "sequence"], name="audit_by_object"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ProviderSession",
            fields=[
                (
                    "session",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="provider_session",
                        serialize=False,
                        to="runs.browsersession",
                    ),
                ),
                ("provider", models.CharField(max_length=40)),
                ("subject", models.CharField(max_length=255)),
                ("sid", models.CharField(blank=True, max_length=255)),
                ("locked", models.TextField(blank=True, editable=False)),
                ("confirmed_at", models.DateTimeField()),
                ("check_at", models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.AddField(
            model_name="browsersession",
            name="user",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="browser_sessions",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("owner", "Owner"),
                            ("maintainer", "Maintainer"),
                            ("member", "Member"),
                            ("auditor", "Auditor"),
                            ("viewer", "Viewer"),
                        ],
                        max_length=12,
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "custom_role",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="memberships",
                        to="runs.customrole",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Node",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.SlugField(max_length=60, unique=True)),
                ("key", models.CharField(editable=False, max_length=64)),
                ("address", models.CharField(blank=True, max_length=120)),
                ("slots", models.PositiveIntegerField(default=1)),
                ("inventory", models.JSONField(blank=True, default=dict)),
                ("health", models.JSONField(blank=True, default=dict)),
                ("self_check", models.JSONField(blank=True, default=dict)),
                ("version", models.CharField(blank=True, max_length=40)),
                ("standby", models.JSONField(blank=True, default=dict)),
                ("is_draining", models.BooleanField(default=False)),
                ("joined_at", models.DateTimeField(auto_now_add=True)),
                ("seen_at", models.DateTimeField(blank=True, null=True)),
                ("removed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[("stays", "Stays"), ("offered", "Offered"), ("brought", "Brought"), ("left", "Left")],
                        default="stays",
                        max_length=8,
                    ),
                ),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="nodes", to="runs.cluster"
                    ),
                ),
            ],
            options={"ordering": ("name",)},
        ),
        migrations.CreateModel(
            name="PersonalExport",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[("waiting", "Waiting"), ("ready", "Ready"), ("failed", "Failed")],
                        default="waiting",
                        max_length=8,
                    ),
                ),
                ("problem", models.TextField(blank=True)),
                ("size_bytes", models.PositiveBigIntegerField(default=0)),
                ("num_rows", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("ready_at", models.DateTimeField(blank=True, null=True)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="personal_exports",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={"ordering": ("-created_at",)},
        ),
        migrations.CreateModel(
            name="Placement",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("node_rank", models.PositiveIntegerField()),
                ("first_rank", models.PositiveIntegerField()),
                ("num_ranks", models.PositiveIntegerField()),
                (
                    "phase",
                    models.CharField(
                        choices=[
                            ("preparing", "preparing"),
                            ("ready", "ready"),
                            ("running", "running"),
                            ("stopping", "stopping"),
                            ("ended", "ended"),
                            ("refused", "refused"),
                        ],
                        default=trainyard.contract.statuses.Phase["PREPARING"],
                        max_length=12,
                    ),
                ),
                ("report", models.JSONField(blank=True, default=dict)),
                ("reported_at", models.DateTimeField(blank=True, null=True)),
                ("output", models.JSONField(blank=True, default=dict)),
                ("gained", models.JSONField(blank=True, default=dict)),
                ("leftovers", models.CharField(blank=True, max_length=8)),
                ("done_at", models.DateTimeField(blank=True, null=True)),
                (
                    "attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="placements", to="runs.attempt"
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="placements", to="runs.node"
                    ),
                ),
            ],
            options={"ordering": ("node_rank",)},
        ),
        migrations.CreateModel(
            name="HeldSlot",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("index", models.PositiveIntegerField()),
                ("share", models.PositiveSmallIntegerField(default=0)),
                ("num_shares", models.PositiveSmallIntegerField(default=1)),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="held_slots", to="runs.node"
                    ),
                ),
                (
                    "placement",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="held_slots", to="runs.placement"
                    ),
                ),
            ],
            options={"ordering": ("index",)},
        ),
        migrations.CreateModel(
            name="Preflight",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                ("why", models.CharField(choices=[("asked", "Asked"), ("placed", "Placed")], max_length=10)),
                ("nodes", models.JSONField(default=list)),
                ("collective", models.JSONField(default=list)),
                ("results", models.JSONField(default=list)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "asked_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "attempt",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="preflights",
                        to="runs.attempt",
                    ),
                ),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="preflights", to="runs.cluster"
                    ),
                ),
            ],
            options={"ordering": ("-created_at",)},
        ),
        migrations.CreateModel(
            name="Project",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.SlugField(max_length=60, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("second_factor_from", models.CharField(blank=True, max_length=12)),
                ("regions", models.CharField(blank=True, max_length=300)),
                ("quota_bytes", models.PositiveBigIntegerField(blank=True, null=True)),
                ("encrypts_files", models.BooleanField(default=False)),
                ("keep_logs_days", models.PositiveIntegerField(blank=True, null=True)),
                ("keep_metrics_days", models.PositiveIntegerField(blank=True, null=True)),
                ("keep_media_days", models.PositiveIntegerField(blank=True, null=True)),
                ("keep_outputs_days", models.PositiveIntegerField(blank=True, null=True)),
                ("keep_checkpoints_days", models.PositiveIntegerField(blank=True, null=True)),
                ("keep_runs_days", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "members",
                    models.ManyToManyField(
                        related_name="projects", through="runs.Membership", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={"ordering": ("name",)},
        ),
        migrations.AddField(
            model_name="membership",
            name="project",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="memberships", to="runs.project"
            ),
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=120)),
                ("version", models.PositiveIntegerField(default=1)),
                ("spec", models.JSONField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="jobs", to="runs.project"
                    ),
                ),
            ],
            options={"ordering": ("name", "-version")},
        ),
        migrations.CreateModel(
            name="GroupRole",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("owner", "Owner"),
                            ("maintainer", "Maintainer"),
                            ("member", "Member"),
                            ("auditor", "Auditor"),
                            ("viewer", "Viewer"),
                        ],
                        max_length=12,
                    ),
                ),
                ("origin", models.CharField(blank=True, editable=False, max_length=141)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "custom_role",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="group_roles",
                        to="runs.customrole",
                    ),
                ),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="project_roles", to="auth.group"
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="group_roles",
                        to="runs.project",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="GitKey",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                ("kind", models.CharField(choices=[("token", "Token"), ("ssh", "Ssh")], max_length=8)),
                ("place", models.CharField(max_length=500)),
                ("user", models.CharField(blank=True, max_length=100)),
                ("locked", models.TextField(editable=False)),
                ("host_keys", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("used_at", models.DateTimeField(null=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="git_keys", to="runs.project"
                    ),
                ),
            ],
            options={"ordering": ("place", "kind")},
        ),
        migrations.CreateModel(
            name="Dataset",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.SlugField(max_length=60)),
                ("source", models.CharField(max_length=20)),
                ("location", models.CharField(max_length=2000)),
                ("options", models.JSONField(blank=True, default=dict)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("checking", "Checking"),
                            ("ready", "Ready"),
                            ("failed", "Failed"),
                        ],
                        default="waiting",
                        max_length=12,
                    ),
                ),
                ("problem", models.TextField(blank=True)),
                ("facts", models.JSONField(blank=True, default=dict)),
                ("size_bytes", models.PositiveBigIntegerField(blank=True, null=True)),
                ("digest", models.CharField(blank=True, max_length=64)),
                ("asked_at", models.DateTimeField(blank=True, null=True)),
                ("checked_at", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="datasets", to="runs.cluster"
                    ),
                ),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "checked_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="runs.node",
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="datasets", to="runs.project"
                    ),
                ),
            ],
            options={"ordering": ("name",)},
        ),
        migrations.AddField(
            model_name="customrole",
            name="project",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="custom_roles", to="runs.project"
            ),
        ),
        migrations.CreateModel(
            name="CodeBundle",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("sha256", models.CharField(max_length=64)),
                ("size_bytes", models.PositiveIntegerField()),
                ("files", models.JSONField(default=list)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="bundles", to="runs.project"
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="cluster",
            name="projects",
            field=models.ManyToManyField(blank=True, related_name="clusters", to="runs.project"),
        ),
        migrations.AddField(
            model_name="user",
            name="service_of",
            field=models.ForeignKey(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="service_accounts",
                to="runs.project",
            ),
        ),
        migrations.CreateModel(
            name="ProvidedGroup",
            fields=[
                (
                    "group",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="provided",
                        serialize=False,
                        to="auth.group",
                    ),
                ),
                ("provider", models.CharField(max_length=40)),
                ("name", models.CharField(max_length=100)),
                ("external_id", models.CharField(blank=True, max_length=255)),
                ("is_provisioned", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("provider", "name"), name="one_group_per_provider_and_name")
                ]
            },
        ),
        migrations.CreateModel(
            name="ProvisioningToken",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                ("provider", models.CharField(max_length=40)),
                ("digest", models.CharField(editable=False, max_length=64, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                ("last_address", models.CharField(blank=True, max_length=45)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={"ordering": ("-created_at",)},
        ),
        migrations.CreateModel(
            name="RunCode",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="code",
                        serialize=False,
                        to="runs.run",
                    ),
                ),
                ("sha256", models.CharField(max_length=64)),
                ("url", models.CharField(max_length=1000)),
                ("commit", models.CharField(max_length=64)),
                ("branch", models.CharField(blank=True, max_length=250)),
                ("path", models.CharField(blank=True, max_length=500)),
                ("subject", models.CharField(blank=True, max_length=300)),
                ("author", models.CharField(blank=True, max_length=200)),
                ("authored_at", models.DateTimeField(null=True)),
                ("previous", models.CharField(blank=True, max_length=64)),
                ("remarks", models.JSONField(blank=True, default=list)),
                ("fetch_s", models.FloatField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="RunTime",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="time",
                        serialize=False,
                        to="runs.run",
                    ),
                ),
                ("ended_at", models.DateTimeField()),
                ("queued_s", models.FloatField()),
                ("starting_s", models.FloatField()),
                ("productive_s", models.FloatField()),
                ("recomputed_s", models.FloatField()),
                ("checkpoint_s", models.FloatField()),
                ("detection_s", models.FloatField()),
                ("restart_s", models.FloatField()),
                ("paused_s", models.FloatField()),
            ],
        ),
        migrations.AddField(
            model_name="run",
            name="cluster",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="runs",
                to="runs.cluster",
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="created_by",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="runs",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="job",
            field=models.ForeignKey(
                blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="runs", to="runs.job"
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="parent",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="children",
                to="runs.run",
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="project",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="runs", to="runs.project"
            ),
        ),
        migrations.CreateModel(
            name="RemovedData",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=20)),
                ("at", models.DateTimeField()),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="removed_data", to="runs.run"
                    ),
                ),
            ],
            options={"verbose_name_plural": "removed data"},
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                ("code", models.CharField(max_length=60)),
                ("sentence", models.TextField()),
                ("data", models.JSONField(blank=True, default=dict)),
                (
                    "actor",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "attempt",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="events",
                        to="runs.attempt",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="events", to="runs.run"
                    ),
                ),
            ],
            options={"ordering": ("at", "id")},
        ),
        migrations.AddField(
            model_name="attempt",
            name="run",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="attempts", to="runs.run"
            ),
        ),
        migrations.CreateModel(
            name="Secret",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=100)),
                ("version", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("changed_at", models.DateTimeField(auto_now_add=True)),
                ("used_at", models.DateTimeField(null=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="secrets",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="secrets",
                        to="runs.project",
                    ),
                ),
            ],
            options={"ordering": ("name",)},
        ),
        migrations.CreateModel(
            name="SecretUse",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100)),
                ("version", models.PositiveIntegerField()),
                ("is_personal", models.BooleanField(default=False)),
                ("node", models.CharField(max_length=120)),
                ("at", models.DateTimeField(auto_now_add=True)),
                (
                    "attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="secret_uses", to="runs.attempt"
                    ),
                ),
                (
                    "secret",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="uses", to="runs.secret"
                    ),
                ),
            ],
            options={"ordering": ("name", "at")},
        ),
        migrations.CreateModel(
            name="SecretVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("key_id", models.CharField(max_length=200)),
                ("wrapped_key", models.TextField()),
                ("ciphertext", models.TextField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "secret",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="versions", to="runs.secret"
                    ),
                ),
            ],
            options={"ordering": ("-number",)},
        ),
        migrations.CreateModel(
            name="SignInLink",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                ("digest", models.CharField(editable=False, max_length=64, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(blank=True, null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="sign_in_links",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="StorageKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("key_id", models.CharField(max_length=200)),
                ("wrapped_key", models.TextField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("destroyed_at", models.DateTimeField(null=True)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="storage_keys", to="runs.project"
                    ),
                ),
            ],
            options={"ordering": ("number",)},
        ),
        migrations.CreateModel(
            name="StoredData",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=20)),
                ("place", models.CharField(max_length=300)),
                ("region", models.CharField(blank=True, max_length=60)),
                ("bytes", models.PositiveBigIntegerField(default=0)),
                ("number", models.PositiveBigIntegerField(default=0)),
                ("measured_at", models.DateTimeField()),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="stored_data", to="runs.project"
                    ),
                ),
            ],
            options={"verbose_name_plural": "stored data", "ordering": ("kind", "place")},
        ),
        migrations.CreateModel(
            name="Sweep",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=120)),
                ("spec", models.JSONField()),
                ("base_spec", models.JSONField()),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("RUNNING", "RUNNING"),
                            ("PAUSED", "PAUSED"),
                            ("STOPPING", "STOPPING"),
                            ("SUCCEEDED", "SUCCEEDED"),
                            ("FAILED", "FAILED"),
                            ("CANCELLED", "CANCELLED"),
                        ],
                        default=trainyard.contract.statuses.SweepStatus["RUNNING"],
                        max_length=10,
                    ),
                ),
                ("reason_code", models.CharField(blank=True, max_length=60)),
                ("reason_sentence", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("active_since", models.DateTimeField(blank=True, null=True)),
                ("active_s", models.FloatField(default=0.0)),
                ("study_state", models.JSONField(blank=True, default=dict)),
                ("cursor", models.PositiveBigIntegerField(default=0)),
                (
                    "cluster",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="sweeps",
                        to="runs.cluster",
                    ),
                ),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="sweeps",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="sweeps", to="runs.project"
                    ),
                ),
            ],
            options={"ordering": ("-created_at", "-id")},
        ),
        migrations.CreateModel(
            name="Token",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=80)),
                ("digest", models.CharField(editable=False, max_length=64, unique=True)),
                ("scopes", models.JSONField(blank=True, null=True)),
                ("project_ids", models.JSONField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                ("last_address", models.CharField(blank=True, max_length=45)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "by_token",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="runs.token",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tokens", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={"ordering": ("-created_at",)},
        ),
        migrations.CreateModel(
            name="JoinToken",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                ("digest", models.CharField(editable=False, max_length=64, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(blank=True, null=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="join_tokens", to="runs.cluster"
                    ),
                ),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="runs.node",
                    ),
                ),
                (
                    "placement",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="join_token",
                        to="runs.placement",
                    ),
                ),
                (
                    "by_token",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="runs.token",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Invitation",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                ("email", models.EmailField(blank=True, max_length=254)),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("owner", "Owner"),
                            ("maintainer", "Maintainer"),
                            ("member", "Member"),
                            ("auditor", "Auditor"),
                            ("viewer", "Viewer"),
                        ],
                        default="member",
                        max_length=12,
                    ),
                ),
                ("digest", models.CharField(editable=False, max_length=64, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField()),
                ("accepted_at", models.DateTimeField(blank=True, null=True)),
                (
                    "accepted_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="invitations", to="runs.project"
                    ),
                ),
                (
                    "by_token",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="runs.token",
                    ),
                ),
            ],
            options={"ordering": ("-created_at",)},
        ),
        migrations.CreateModel(
            name="Trial",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("WAITING", "WAITING"),
                            ("RUNNING", "RUNNING"),
                            ("COMPLETE", "COMPLETE"),
                            ("PRUNED", "PRUNED"),
                            ("FAILED", "FAILED"),
                        ],
                        default=trainyard.contract.statuses.TrialState["WAITING"],
                        max_length=8,
                    ),
                ),
                ("reason", models.TextField(blank=True)),
                ("parameters", models.JSONField(default=dict)),
                ("value", models.FloatField(blank=True, null=True)),
                ("values", models.JSONField(blank=True, default=list)),
                ("parent_step", models.BigIntegerField(blank=True, null=True)),
                ("by_hand", models.BooleanField(default=False)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("steps", models.BigIntegerField(blank=True, null=True)),
                ("pruned_at_step", models.BigIntegerField(blank=True, null=True)),
                ("is_promoted", models.BooleanField(default=False)),
                ("system_attributes", models.JSONField(blank=True, default=dict)),
                (
                    "parent",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="children",
                        to="runs.trial",
                    ),
                ),
                (
                    "run",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="trial",
                        to="runs.run",
                    ),
                ),
                (
                    "sweep",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="trials", to="runs.sweep"
                    ),
                ),
            ],
            options={"ordering": ("sweep", "number")},
        ),
        migrations.AddField(
            model_name="sweep",
            name="best",
            field=models.ForeignKey(
                blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="runs.trial"
            ),
        ),
        migrations.CreateModel(
            name="TrialReport",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("step", models.BigIntegerField()),
                ("value", models.FloatField()),
                (
                    "trial",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="reports", to="runs.trial"
                    ),
                ),
            ],
            options={"ordering": ("trial", "step")},
        ),
        migrations.CreateModel(
            name="TrialRun",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("seed", models.PositiveIntegerField()),
                (
                    "run",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="trial_seed",
                        to="runs.run",
                    ),
                ),
                (
                    "trial",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="further_runs", to="runs.trial"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Workspace",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("state", models.JSONField(default=dict)),
                ("run_colours", models.JSONField(blank=True, default=dict)),
                ("saved_at", models.DateTimeField(auto_now=True)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="workspaces", to="runs.project"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="workspaces",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ClusterRole",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("role", models.CharField(choices=[("runner", "Runner"), ("operator", "Operator")], max_length=12)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="group_roles",
                        to="runs.cluster",
                    ),
                ),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="cluster_roles", to="auth.group"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("group", "cluster"), name="one_role_per_group_and_cluster"),
                    models.UniqueConstraint(
                        condition=models.Q(("cluster", None)),
                        fields=("group",),
                        name="one_role_per_group_on_all_clusters",
                    ),
                ]
            },
        ),
        migrations.CreateModel(
            name="Consent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("digest", models.CharField(max_length=64)),
                ("at", models.DateTimeField(auto_now_add=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="consents",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={"constraints": [models.UniqueConstraint(fields=("user", "digest"), name="one_consent_per_text")]},
        ),
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=200)),
                ("path", models.CharField(max_length=300)),
                ("body_digest", models.CharField(max_length=64)),
                ("status_code", models.PositiveSmallIntegerField(default=0)),
                ("answer", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={"constraints": [models.UniqueConstraint(fields=("user", "key"), name="one_answer_per_key")]},
        ),
        migrations.CreateModel(
            name="Identity",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("provider", models.CharField(max_length=40)),
                ("subject", models.CharField(blank=True, max_length=255)),
                ("external_id", models.CharField(blank=True, max_length=255)),
                ("username", models.CharField(blank=True, max_length=150)),
                ("is_provisioned", models.BooleanField(default=False)),
                ("keeps_person", models.BooleanField(default=False)),
                ("is_disabled_by_provider", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("signed_in_at", models.DateTimeField(blank=True, null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="identities",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("subject", ""), _negated=True),
                        fields=("provider", "subject"),
                        name="one_identity_per_subject",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("username", ""), _negated=True),
                        fields=("provider", "username"),
                        name="one_identity_per_username",
                    ),
                    models.UniqueConstraint(fields=("provider", "user"), name="one_identity_per_provider"),
                ]
            },
        ),
        migrations.AddConstraint(
            model_name="placement",
            constraint=models.UniqueConstraint(fields=("attempt", "node"), name="one_placement_per_node"),
        ),
        migrations.AddConstraint(
            model_name="placement",
            constraint=models.UniqueConstraint(fields=("attempt", "node_rank"), name="one_placement_per_node_rank"),
        ),
        migrations.AddConstraint(
            model_name="heldslot",
            constraint=models.UniqueConstraint(fields=("node", "index", "share"), name="a_slot_is_held_once"),
        ),
        migrations.AddIndex(
            model_name="preflight", index=models.Index(fields=["cluster", "-created_at"], name="preflight_by_cluster")
        ),
        migrations.AddConstraint(
            model_name="preflight",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ended_at", None)), fields=("cluster",), name="one_open_preflight_per_cluster"
            ),
        ),
        migrations.AddConstraint(
            model_name="membership",
            constraint=models.UniqueConstraint(fields=("project", "user"), name="one_membership_per_project"),
        ),
        migrations.AddIndex(
            model_name="job",
            index=runs.models.indexes.ListIndex(
                beside=("project", "id"), fields=["name", "-version"], name="job_by_name"
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.UniqueConstraint(fields=("project", "name", "version"), name="one_version_per_job"),
        ),
        migrations.AddConstraint(
            model_name="grouprole",
            constraint=models.UniqueConstraint(fields=("group", "project"), name="one_role_per_group_and_project"),
        ),
        migrations.AddConstraint(
            model_name="grouprole",
            constraint=models.UniqueConstraint(
                condition=models.Q(("project", None)), fields=("group",), name="one_role_per_group_everywhere"
            ),
        ),
        migrations.AddConstraint(
            model_name="gitkey",
            constraint=models.UniqueConstraint(fields=("project", "kind", "place"), name="one_git_key_per_place"),
        ),
        migrations.AddConstraint(
            model_name="dataset",
            constraint=models.UniqueConstraint(fields=("project", "name"), name="one_dataset_per_name"),
        ),
        migrations.AddConstraint(
            model_name="customrole",
            constraint=models.UniqueConstraint(fields=("project", "name"), name="one_custom_role_per_name"),
        ),
        migrations.AddConstraint(
            model_name="codebundle",
            constraint=models.UniqueConstraint(fields=("project", "sha256"), name="one_bundle_per_digest"),
        ),
        migrations.AddIndex(model_name="runcode", index=models.Index(fields=["commit"], name="code_by_commit")),
        migrations.AddIndex(
            model_name="run",
            index=runs.models.indexes.ListIndex(
                beside=("archived_at", "status", "project", "found_by"),
                fields=["created_at", "id"],
                name="run_by_created",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=runs.models.indexes.ListIndex(
                beside=("archived_at", "status", "project", "found_by"), fields=["name", "id"], name="run_by_name"
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=runs.models.indexes.ListIndex(
                beside=("archived_at", "status", "project", "found_by"), fields=["status", "id"], name="run_by_status"
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=runs.models.indexes.ListIndex(
                beside=("archived_at", "status", "project", "found_by"),
                condition=models.Q(("ended_at__isnull", False)),
                fields=["ended_at", "id"],
                name="run_by_ended",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=runs.models.indexes.ListIndex(
                beside=("status", "project", "local_id", "archived_at"),
                condition=models.Q(("ended_at", None)),
                fields=["created_at", "id"],
                name="run_live",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=runs.models.indexes.ListIndex(
                beside=("wanted", "project"),
                fields=["cluster", "status", "priority", "created_at", "id"],
                name="run_queue",
            ),
        ),
        migrations.AddIndex(
            model_name="run", index=models.Index(condition=models.Q(("is_long", True)), fields=["id"], name="run_long")
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("ended_at__isnull", False)),
                fields=["cluster", "recipe", "ended_at"],
                name="run_of_recipe",
            ),
        ),
        migrations.AddIndex(
            model_name="run", index=models.Index(fields=["project", "dataset", "created_at"], name="run_of_dataset")
        ),
        migrations.AddIndex(
            model_name="run", index=models.Index(fields=["job", "created_at", "id"], name="run_of_job")
        ),
        migrations.AddConstraint(
            model_name="removeddata",
            constraint=models.UniqueConstraint(fields=("run", "kind"), name="one_removal_per_run_and_kind"),
        ),
        migrations.AddIndex(model_name="event", index=models.Index(fields=["run", "at"], name="event_run_at")),
        migrations.AddIndex(model_name="event", index=models.Index(fields=["code"], name="event_by_code")),
        migrations.AddIndex(
            model_name="attempt", index=models.Index(fields=["created_at", "id"], name="attempt_by_created")
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.UniqueConstraint(fields=("run", "fence"), name="one_attempt_per_fence"),
        ),
        migrations.AddConstraint(
            model_name="attempt",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ended_at", None)), fields=("run",), name="one_live_attempt_per_run"
            ),
        ),
        migrations.AddConstraint(
            model_name="secret",
            constraint=models.UniqueConstraint(fields=("project", "name"), name="one_secret_per_project_and_name"),
        ),
        migrations.AddConstraint(
            model_name="secret",
            constraint=models.UniqueConstraint(fields=("person", "name"), name="one_secret_per_person_and_name"),
        ),
        migrations.AddConstraint(
            model_name="secret",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("person__isnull", False), ("project__isnull", True)),
                    models.Q(("person__isnull", True), ("project__isnull", False)),
                    _connector="OR",
                ),
                name="secret_of_a_project_or_a_person",
            ),
        ),
        migrations.AddConstraint(
            model_name="secretuse",
            constraint=models.UniqueConstraint(
                fields=("attempt", "name", "version", "is_personal", "node"), name="one_use_per_attempt_and_node"
            ),
        ),
        migrations.AddConstraint(
            model_name="secretversion",
            constraint=models.UniqueConstraint(fields=("secret", "number"), name="one_value_per_secret_and_number"),
        ),
        migrations.AddConstraint(
            model_name="storagekey",
            constraint=models.UniqueConstraint(fields=("project", "number"), name="one_storage_key_per_number"),
        ),
        migrations.AddConstraint(
            model_name="storeddata",
            constraint=models.UniqueConstraint(
                fields=("project", "kind", "place"), name="one_measure_per_kind_and_place"
            ),
        ),
        migrations.AddIndex(
            model_name="trial", index=models.Index(fields=["sweep", "state", "value"], name="trial_by_state")
        ),
        migrations.AddConstraint(
            model_name="trial",
            constraint=models.UniqueConstraint(fields=("sweep", "number"), name="one_trial_per_number"),
        ),
        migrations.AddIndex(
            model_name="sweep", index=models.Index(fields=["project", "created_at", "id"], name="sweep_by_project")
        ),
        migrations.AddIndex(model_name="sweep", index=models.Index(fields=["status"], name="sweep_by_status")),
        migrations.AddConstraint(
            model_name="trialreport",
            constraint=models.UniqueConstraint(fields=("trial", "step"), name="one_report_per_step"),
        ),
        migrations.AddConstraint(
            model_name="trialrun", constraint=models.UniqueConstraint(fields=("trial", "seed"), name="one_run_per_seed")
        ),
        migrations.AddConstraint(
            model_name="workspace",
            constraint=models.UniqueConstraint(fields=("user", "project"), name="one_workspace_per_project"),
        ),
        migrations.RunPython(index_tags, forget_tags),
        migrations.RunPython(add_triggers, drop_triggers),
    ]
