from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0027_spares"),
    ]

    operations = [
        migrations.AddField(
            model_name="preflight",
            name="collective",
            field=models.JSONField(default=list),
        ),
    ]
