import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import runs.values.ids


class Migration(migrations.Migration):
    dependencies = [("runs", "0067_experiments")]

    operations = [
        migrations.CreateModel(
            name="SharedLink",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                ("object", models.TextField()),
                ("digest", models.CharField(editable=False, max_length=64, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("num_opened", models.PositiveIntegerField(default=0)),
                ("first_opened_at", models.DateTimeField(blank=True, null=True)),
                ("last_opened_at", models.DateTimeField(blank=True, null=True)),
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
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="shared_links",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="shared_links", to="runs.project"
                    ),
                ),
            ],
            options={"ordering": ("-created_at",)},
        )
    ]
