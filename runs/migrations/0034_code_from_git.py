import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import runs.ids


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0036_interactive"),
    ]

    operations = [
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
            options={
                "indexes": [models.Index(fields=["commit"], name="code_by_commit")],
            },
        ),
        migrations.CreateModel(
            name="GitKey",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
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
            options={
                "ordering": ("place", "kind"),
                "constraints": [
                    models.UniqueConstraint(fields=("project", "kind", "place"), name="one_git_key_per_place")
                ],
            },
        ),
    ]
