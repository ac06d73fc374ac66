"""Parts of projects, predicted starts, and priorities from 0 to 100 in place of -1 (high), 0 and 1 (low)."""

from typing import Any

from django.db import migrations
from django.db.models import (
    BigIntegerField,
    CharField,
    F,
    FloatField,
    JSONField,
    PositiveIntegerField,
    SmallIntegerField,
)
from django.db.models import PositiveSmallIntegerField as Small

from runs.models.indexes import ListIndex

NULL: dict[str, Any] = {"null": True, "blank": True}
FIELDS = (
    ("cluster", "half_life_days", FloatField(default=7.0)), ("cluster", "slot_hour_price", FloatField(**NULL)),
    ("project", "guaranteed_slots", PositiveIntegerField(default=0)), ("project", "weight", FloatField(default=1.0)),
    ("project", "max_priority", Small(default=100)),
    ("project", "slots", PositiveIntegerField(**NULL)), ("project", "slot_hours_month", FloatField(**NULL)),
    ("run", "planned_s", FloatField(editable=False, null=True)), ("run", "limit_s", FloatField(editable=False, null=True)),
    ("run", "num_steps", BigIntegerField(editable=False, null=True)),
    ("run", "predicted_start", JSONField(editable=False, null=True)),
)  # fmt: skip
QUEUE = ("cluster", "status", "-priority", "created_at", "id")


def to_hundred(apps: Any, schema_editor: Any) -> None:
    runs = apps.get_model("runs", "Run").objects
    runs.filter(priority__in=(-1, 0, 1)).update(priority=50 - 25 * F("priority"))


def to_three(apps: Any, schema_editor: Any) -> None:
    runs = apps.get_model("runs", "Run").objects
    for low, high, word in ((0, 49, 1), (51, 100, -1), (50, 50, 0)):
        runs.filter(priority__gte=low, priority__lte=high).update(priority=word)


class Migration(migrations.Migration):
    dependencies = (("runs", "0001_squashed_0068"),)
    operations = (
        migrations.RemoveIndex("run", "run_queue"),
        *(migrations.AddField(model, name, field) for model, name, field in FIELDS),
        migrations.AlterField("cluster", "scheduling", CharField(default="fair-share", max_length=40)),
        migrations.AlterField("run", "priority", SmallIntegerField(default=50, editable=False)),
        migrations.RunPython(to_hundred, to_three),
        migrations.AddIndex("run", ListIndex(beside=("wanted", "project"), fields=QUEUE, name="run_queue")),
    )
