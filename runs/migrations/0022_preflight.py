import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

import runs.ids


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0018_run_time"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="self_check",
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.CreateModel(
            name="Preflight",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                (
                    "why",
                    models.CharField(choices=[("asked", "Asked"), ("placed", "Placed")], max_length=10),
                ),
                ("nodes", models.JSONField(default=list)),
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
            options={
                "ordering": ("-created_at",),
                "indexes": [models.Index(fields=["cluster", "-created_at"], name="preflight_by_cluster")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at", None)),
                        fields=("cluster",),
                        name="one_open_preflight_per_cluster",
                    )
                ],
            },
        ),
    ]
