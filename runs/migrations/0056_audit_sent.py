"""The head of the audit has the number of the last row that the collector of OTLP took. It may be empty: SQLite then adds the
column in place. A trigger names this table, so that another one cannot take its place."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0055_storage_keys")]

    operations = [
        migrations.AddField(
            model_name="audithead",
            name="sent_sequence",
            field=models.BigIntegerField(null=True),
        ),
    ]
