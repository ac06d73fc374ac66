"""Levels of a cluster's topology, and what runs need beside slots."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("runs", "0070_limits_of_projects"),)
    operations = (
        migrations.AddField("cluster", "topology", models.JSONField(blank=True, default=list)),
        migrations.AddField("run", "needs", models.JSONField(editable=False, null=True)),
    )
