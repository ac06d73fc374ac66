from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0031_cluster_secrets"),
    ]

    operations = [
        migrations.AddField(
            model_name="cluster",
            name="interactive",
            field=models.BooleanField(default=False),
        ),
    ]
