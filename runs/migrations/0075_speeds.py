"""How fast an elastic run steps on each number of nodes, and machines of an engine that stay between runs."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("runs", "0074_idle_runs"),)
    operations = (
        migrations.AddField("attempt", "pace", models.JSONField(blank=True, editable=False, null=True)),
        migrations.AddField("cluster", "pool", models.JSONField(blank=True, default=dict, editable=False)),
        migrations.AddField("jointoken", "for_pool", models.BooleanField(default=False)),
    )  # fmt: skip
