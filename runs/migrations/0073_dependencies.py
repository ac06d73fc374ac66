"""What a run waits for beside room: a time, other runs, its turn in an array."""

from typing import Any

from django.db import migrations, models

ID = ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"))
RUN: dict[str, Any] = {"on_delete": models.CASCADE, "to": "runs.run"}
OTHER: dict[str, Any] = {"null": True, "on_delete": models.SET_NULL, "to": "runs.run"}


class Migration(migrations.Migration):
    dependencies = (("runs", "0072_told"),)
    operations = (
        migrations.CreateModel(name="StartTerms", fields=[
            ("run", models.OneToOneField(primary_key=True, related_name="start_terms", serialize=False, **RUN)),
            ("not_before", models.DateTimeField(null=True)), ("deadline", models.DateTimeField(null=True)),
            ("array", models.CharField(blank=True, db_index=True, max_length=12)),
            ("at_once", models.PositiveSmallIntegerField(default=0))]),
        migrations.CreateModel(name="Dependency", fields=[
            ID, ("name", models.CharField(max_length=120)), ("must_succeed", models.BooleanField()),
            ("run", models.ForeignKey(related_name="dependencies", **RUN)),
            ("other", models.ForeignKey(related_name="dependents", **OTHER))]),
    )  # fmt: skip
