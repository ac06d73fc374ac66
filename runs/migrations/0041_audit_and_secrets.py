"""Rows of the audit, which a trigger keeps from changes, and secrets."""

from __future__ import annotations

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import runs.ids
from runs.migrations._statements import add_triggers, drop_triggers


class Migration(migrations.Migration):
    dependencies = [("runs", "0034_code_from_git")]

    operations = [
        migrations.CreateModel(
            name="AuditHead",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("sequence", models.BigIntegerField(default=0)),
                ("hash", models.CharField(blank=True, max_length=64)),
                ("cut_sequence", models.BigIntegerField(default=0)),
                ("cut_hash", models.CharField(blank=True, max_length=64)),
                ("seal", models.CharField(blank=True, max_length=64)),
            ],
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
            name="Secret",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
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
            options={
                "ordering": ("name",),
            },
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
            options={
                "ordering": ("name", "at"),
            },
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
            options={
                "ordering": ("-number",),
            },
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
        migrations.RunPython(add_triggers, drop_triggers),
    ]
