from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0019_elastic"),
    ]

    operations = [
        migrations.AddField(
            model_name="preflight",
            name="collective",
            field=models.JSONField(default=list),
        ),
    ]
