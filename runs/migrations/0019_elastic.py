from django.db import migrations, models

import runs.models.indexes


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0026_log_rules"),
    ]

    operations = [
        migrations.AddField(
            model_name="attempt",
            name="growth",
            field=models.JSONField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="run",
            name="node_counts",
            field=models.JSONField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="run",
            name="node_limit",
            field=models.PositiveIntegerField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="run",
            name="priority",
            field=models.SmallIntegerField(default=0, editable=False),
        ),
        migrations.RemoveIndex(
            model_name="run",
            name="run_queue",
        ),
        migrations.AddIndex(
            model_name="run",
            index=runs.models.indexes.ListIndex(
                beside=("wanted", "project"),
                fields=["cluster", "status", "priority", "created_at", "id"],
                name="run_queue",
            ),
        ),
        migrations.AlterField(
            model_name="run",
            name="wanted",
            field=models.CharField(
                choices=[
                    ("run", "run"),
                    ("stop", "stop"),
                    ("pause", "pause"),
                    ("resize", "resize"),
                    ("requeue", "requeue"),
                ],
                default="run",
                editable=False,
                max_length=8,
            ),
        ),
    ]
