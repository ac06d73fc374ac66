from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0026_log_rules"),
    ]

    operations = [
        migrations.AddField(
            model_name="preflight",
            name="collective",
            field=models.JSONField(default=list),
        ),
    ]
