"""Runs that were told when they would start are found by their cluster."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("runs", "0069_the_queue"),)
    operations = (
        migrations.AddIndex(
            "run",
            models.Index(
                fields=("cluster", "created_at"), condition=models.Q(predicted_start__isnull=False), name="run_told"
            ),
        ),
    )
