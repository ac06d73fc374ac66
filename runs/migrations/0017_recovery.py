from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0016_pauses"),
    ]

    operations = [
        migrations.AddField(
            model_name="attempt",
            name="failure",
            field=models.JSONField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="run",
            name="recovery",
            field=models.JSONField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="run",
            name="recover_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
    ]
