"""Settings of clusters for runs that idle, and the mark of an attempt that does."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("runs", "0073_dependencies"),)
    operations = (
        migrations.AddField("cluster", "idle_action", models.CharField(default="mark", max_length=4)),
        migrations.AddField("cluster", "idle_below", models.FloatField(default=5.0)),
        migrations.AddField("cluster", "idle_minutes", models.FloatField(default=30.0)),
        migrations.AddField("attempt", "idle", models.JSONField(blank=True, editable=False, null=True)),
    )
