from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0028_preflight_collective"),
    ]

    operations = [
        migrations.AddField(
            model_name="cluster",
            name="interactive",
            field=models.BooleanField(default=False),
        ),
    ]
