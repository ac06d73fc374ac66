from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("metrics", "0006_states_in_memory")]

    operations = [
        migrations.AddField(model_name="checkpoint", name="key_version", field=models.PositiveIntegerField(default=0))
    ]
