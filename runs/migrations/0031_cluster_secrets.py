"""Any engine of the code may be that of a cluster, and a cluster's settings may have secrets beside them."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0028_preflight_collective")]

    operations = [
        migrations.AlterField(
            model_name="cluster", name="engine", field=models.CharField(default="celery", max_length=20)
        ),
        migrations.AddField(
            model_name="cluster", name="secrets", field=models.JSONField(blank=True, default=dict, editable=False)
        ),
    ]
