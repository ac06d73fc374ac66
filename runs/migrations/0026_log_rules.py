from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0024_allocations"),
    ]

    operations = [
        migrations.AddField(
            model_name="cluster",
            name="log_rules",
            field=models.JSONField(blank=True, default=list),
        ),
    ]
