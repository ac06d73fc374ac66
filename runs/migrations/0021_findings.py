from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0022_preflight"),
    ]

    operations = [
        migrations.AddField(
            model_name="attempt",
            name="slow_ranks",
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddField(
            model_name="attempt",
            name="alarms",
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddField(
            model_name="run",
            name="rewinds",
            field=models.JSONField(blank=True, default=list, editable=False),
        ),
    ]
