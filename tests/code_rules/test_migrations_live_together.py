"""Old and new code live with a migration: webs are upgraded one by one, and a version that disappoints is put back.

What is dropped, renamed or made NOT NULL without a default of the database's own breaks the version before. It takes
two releases: the first stops using it, the next one drops it.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from django.db import migrations, models
from django.db.models.fields import NOT_PROVIDED

ROOT = Path(__file__).resolve().parents[2]
APPS = {"runs": "runs.migrations", "metrics": "runs.records.metrics.migrations"}
LAST_BEFORE_THE_RULE = {"runs": 76, "metrics": 1}  # migrations up to this number are as they are
GONE = (
    migrations.RemoveField, migrations.RenameField, migrations.DeleteModel, migrations.RenameModel,
    migrations.AlterModelTable,
)  # fmt: skip


def problem_of(operation: object) -> str:
    """Return why the version before cannot live with what an operation makes; empty where it can."""
    if isinstance(operation, migrations.SeparateDatabaseAndState):
        return next((found for one in operation.database_operations if (found := problem_of(one))), "")
    if isinstance(operation, GONE):
        return f"{type(operation).__name__}: the version before still uses it"
    if isinstance(operation, migrations.RunSQL):
        return "RunSQL: say it with Django's operations, of which this test knows what they do"
    if isinstance(operation, migrations.AddField | migrations.AlterField):
        field = operation.field
        if isinstance(field, models.ManyToManyField | models.GeneratedField) or field.null:
            return ""
        if field.db_default is NOT_PROVIDED:
            return f"{operation.name}: NOT NULL without db_default, which the version before does not fill in"
    return ""


def test_no_migration_breaks_the_version_before() -> None:
    for label, package in APPS.items():
        for path in sorted((ROOT / package.replace(".", "/")).glob("[0-9]*.py")):
            if int(path.name[:4]) <= LAST_BEFORE_THE_RULE[label]:
                continue
            for operation in import_module(f"{package}.{path.stem}").Migration.operations:
                assert not problem_of(operation), f"{path.name}: {problem_of(operation)}"


@pytest.mark.parametrize(
    "operation",
    [
        migrations.RemoveField("run", "name"),
        migrations.RenameField("run", "name", "title"),
        migrations.DeleteModel("Run"),
        migrations.RenameModel("Run", "Job"),
        migrations.AlterModelTable("run", "jobs"),
        migrations.RunSQL("ALTER TABLE runs_run DROP COLUMN name"),
        migrations.AddField("run", "needs", models.JSONField(default=list)),
        migrations.AlterField("run", "name", models.TextField()),
        migrations.SeparateDatabaseAndState([migrations.DeleteModel("Run")], []),
    ],
)
def test_what_breaks_it_is_named(operation: object) -> None:
    assert problem_of(operation)


@pytest.mark.parametrize(
    "operation",
    [
        migrations.AddField("run", "needs", models.JSONField(null=True)),
        migrations.AddField("run", "idle", models.FloatField(default=1.0, db_default=1.0)),
        migrations.AddField("run", "friends", models.ManyToManyField("runs.User")),
        migrations.CreateModel("Thing", [("id", models.BigAutoField(primary_key=True))]),
        migrations.SeparateDatabaseAndState([], [migrations.RemoveField("run", "name")]),
    ],
)
def test_what_both_live_with_is_let_be(operation: object) -> None:
    assert not problem_of(operation)
