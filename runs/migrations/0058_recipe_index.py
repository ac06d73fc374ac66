"""The index of a recipe's ended runs holds no others: SQLite took it for lists of runs that have not ended, skipping
through its clusters and recipes, and sorted what it found."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0056_audit_sent")]

    operations = [
        migrations.RemoveIndex(model_name="run", name="run_of_recipe"),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("ended_at__isnull", False)),
                fields=["cluster", "recipe", "ended_at"],
                name="run_of_recipe",
            ),
        ),
    ]
