"""How fast an elastic run steps on each number of nodes."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("runs", "0073_dependencies"),)
    operations = (
        migrations.AddField("attempt", "pace", models.JSONField(blank=True, editable=False, null=True)),
    )  # fmt: skip
