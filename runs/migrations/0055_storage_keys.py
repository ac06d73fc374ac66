"""Storage keys of projects, with which their checkpoints are encrypted."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0054_sealed_factors")]

    operations = [
        migrations.AddField(model_name="project", name="encrypts_files", field=models.BooleanField(default=False)),
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
            options={
                "ordering": ("number",),
                "constraints": [
                    models.UniqueConstraint(fields=("project", "number"), name="one_storage_key_per_number")
                ],
            },
        ),
    ]
