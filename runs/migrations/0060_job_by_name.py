"""The list of jobs is read in the order of an index: all of them were sorted for its first page."""

from __future__ import annotations

from django.db import migrations

import runs.models.indexes


class Migration(migrations.Migration):
    dependencies = [("runs", "0059_run_in_container")]

    operations = [
        migrations.AddIndex(
            model_name="job",
            index=runs.models.indexes.ListIndex(
                beside=("project", "id"), fields=["name", "-version"], name="job_by_name"
            ),
        ),
    ]
