"""Runs that were told when they would start are found by their cluster."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("runs", "0071_topology_of_clusters"),)
    operations = (
        migrations.AddIndex(
            "run",
            models.Index(
                fields=("cluster", "created_at"), condition=models.Q(predicted_start__isnull=False), name="run_told"
            ),
        ),
    )
