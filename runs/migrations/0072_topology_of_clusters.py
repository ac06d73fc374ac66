"""Levels of a cluster's topology, and what runs need beside slots."""

from django.db import migrations
from django.db.models import JSONField


class Migration(migrations.Migration):
    dependencies = (("runs", "0069_the_queue"),)
    operations = (
        migrations.AddField("cluster", "topology", JSONField(blank=True, default=list)),
        migrations.AddField("run", "needs", JSONField(editable=False, null=True)),
    )
