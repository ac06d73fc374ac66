"""Runs that people follow or mute, how urgent a notice is, and until when it is held."""

from django.conf import settings
from django.db import migrations, models
from django.db.models import CASCADE


class Migration(migrations.Migration):
    dependencies = (("runs", "0076_notices"),)
    operations = (
        migrations.CreateModel(name="Following", fields=[
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("is_muted", models.BooleanField(default=False)),
            ("run", models.ForeignKey(on_delete=CASCADE, related_name="followings", to="runs.run")),
            ("user", models.ForeignKey(on_delete=CASCADE, related_name="followings", to=settings.AUTH_USER_MODEL))],
            options={"constraints": (models.UniqueConstraint(fields=("user", "run"), name="one_word_per_run"),)}),
        migrations.AddField("user", "quiet_hours", models.JSONField(null=True, blank=True, editable=False)),
        migrations.AddField("noticerule", "every",
                            models.CharField(max_length=4, blank=True, default="", db_default="")),
        migrations.AddField("notice", "batch", models.BigIntegerField(null=True)),
        migrations.AddField("notice", "level", models.PositiveSmallIntegerField(default=2, db_default=2)),
    )  # fmt: skip
