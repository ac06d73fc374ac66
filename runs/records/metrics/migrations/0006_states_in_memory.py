from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("metrics", "0005_facts")]

    operations = [
        migrations.AddField(
            model_name="checkpointuse", name="memory", field=models.CharField(blank=True, max_length=300)
        )
    ]
