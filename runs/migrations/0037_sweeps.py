import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

import runs.ids

SWEEP_STATES = [
    ("RUNNING", "RUNNING"),
    ("PAUSED", "PAUSED"),
    ("STOPPING", "STOPPING"),
    ("SUCCEEDED", "SUCCEEDED"),
    ("FAILED", "FAILED"),
    ("CANCELLED", "CANCELLED"),
]
TRIAL_STATES = [
    ("WAITING", "WAITING"),
    ("RUNNING", "RUNNING"),
    ("COMPLETE", "COMPLETE"),
    ("PRUNED", "PRUNED"),
    ("FAILED", "FAILED"),
]


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0041_audit_and_secrets"),
    ]

    operations = [
        migrations.CreateModel(
            name="Sweep",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=120)),
                ("spec", models.JSONField()),
                ("base_spec", models.JSONField()),
                ("status", models.CharField(choices=SWEEP_STATES, default="RUNNING", max_length=10)),
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
            name="Trial",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("state", models.CharField(choices=TRIAL_STATES, default="WAITING", max_length=8)),
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
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="runs.trial",
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
        migrations.AddIndex(
            model_name="sweep",
            index=models.Index(fields=["project", "created_at", "id"], name="sweep_by_project"),
        ),
        migrations.AddIndex(
            model_name="sweep",
            index=models.Index(fields=["status"], name="sweep_by_status"),
        ),
        migrations.AddConstraint(
            model_name="trial",
            constraint=models.UniqueConstraint(fields=("sweep", "number"), name="one_trial_per_number"),
        ),
        migrations.AddIndex(
            model_name="trial",
            index=models.Index(fields=["sweep", "state", "value"], name="trial_by_state"),
        ),
        migrations.AddConstraint(
            model_name="trialreport",
            constraint=models.UniqueConstraint(fields=("trial", "step"), name="one_report_per_step"),
        ),
        migrations.AddConstraint(
            model_name="trialrun",
            constraint=models.UniqueConstraint(fields=("trial", "seed"), name="one_run_per_seed"),
        ),
    ]
