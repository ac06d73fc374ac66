from django.db import migrations
from django.db.models import BigAutoField, BigIntegerField, DateTimeField, Index, JSONField, Q

import runs.models.runs
from runs.models.indexes import ListIndex

BESIDE = ("archived_at", "status", "project", "found_by", "number")
NUMBERED = """
    UPDATE runs_run SET number = counted.number
    FROM (SELECT id, row_number() OVER (ORDER BY created_at, id) AS number FROM runs_run) AS counted
    WHERE counted.id = runs_run.id
"""
CONFIGURED = {
    "sqlite": "UPDATE runs_run SET config = json_extract(spec, '$.train') "
    "WHERE json_type(spec, '$.task.recipe') = 'text' AND json_type(spec, '$.train') = 'object'",
    "postgresql": "UPDATE runs_run SET config = spec -> 'train' "
    "WHERE spec #> '{task,recipe}' IS NOT NULL AND jsonb_typeof(spec -> 'train') = 'object'",
}
COUNTED = {
    "sqlite": "INSERT INTO runs_runnumber (id) SELECT MAX(number) FROM runs_run HAVING COUNT(*) > 0",
    "postgresql": "SELECT setval(pg_get_serial_sequence('runs_runnumber', 'id'), MAX(number)) FROM runs_run "
    "HAVING COUNT(*) > 0",
}


def fill(apps, schema_editor):
    connection = schema_editor.connection
    with connection.cursor() as cursor:
        for statement in (NUMBERED, CONFIGURED[connection.vendor], COUNTED[connection.vendor]):
            cursor.execute(statement)
        if connection.vendor == "postgresql":  # which alters no table while checks of changed rows are still due
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


class Migration(migrations.Migration):
    dependencies = [("runs", "0063_cluster_scheduling")]

    operations = [
        migrations.RemoveIndex(model_name="run", name="run_by_created"),
        migrations.RemoveIndex(model_name="run", name="run_by_name"),
        migrations.RemoveIndex(model_name="run", name="run_by_status"),
        migrations.RemoveIndex(model_name="run", name="run_by_ended"),
        migrations.CreateModel(
            name="RunNumber",
            fields=[("id", BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"))],
        ),
        migrations.AddField("run", "config", JSONField(blank=True, default=dict)),
        migrations.AddField("run", "described_at", DateTimeField(editable=False, null=True)),
        migrations.AddField("run", "number", BigIntegerField(null=True, editable=False)),
        migrations.RunPython(fill, migrations.RunPython.noop, elidable=False),
        migrations.AlterField(
            "run", "number", BigIntegerField(default=runs.models.runs.next_number, editable=False, unique=True)
        ),
        *(
            migrations.AddIndex("run", ListIndex(fields=(field, "id"), beside=BESIDE, name=name, condition=condition))
            for name, field, condition in (
                ("run_by_created", "created_at", None),
                ("run_by_name", "name", None),
                ("run_by_status", "status", None),
                ("run_by_ended", "ended_at", Q(ended_at__isnull=False)),
            )
        ),
        migrations.AddIndex(
            "run", Index(fields=("described_at",), condition=Q(described_at__isnull=False), name="run_described")
        ),
    ]
