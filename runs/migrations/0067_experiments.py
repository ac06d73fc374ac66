import django.db.models.deletion
from django.db import migrations, models

import runs.values.ids


class Migration(migrations.Migration):
    dependencies = [("runs", "0066_saved_views")]

    operations = [
        migrations.CreateModel(
            name="Experiment",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.values.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=500)),
                ("tags", models.JSONField(blank=True, default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("changed_at", models.DateTimeField(auto_now=True)),
                ("archived_at", models.DateTimeField(blank=True, null=True)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="experiments", to="runs.project"
                    ),
                ),
            ],
            options={
                "ordering": ("name",),
                "constraints": [models.UniqueConstraint(fields=("project", "name"), name="one_experiment_per_name")],
            },
        )
    ]
