"""Limits of projects on runs at once, people, money and the time of a run, and groups of projects."""

from typing import Any

from django.core.validators import validate_slug
from django.db import migrations
from django.db.models import CharField, FloatField, JSONField, PositiveIntegerField

NULL: dict[str, Any] = {"null": True, "blank": True}
FIELDS = (
    ("project", "runs_at_once", PositiveIntegerField(**NULL)),
    ("project", "slots_per_person", PositiveIntegerField(**NULL)),
    ("project", "budget_month", FloatField(**NULL)),
    ("project", "max_run_hours", FloatField(**NULL)),
    ("project", "share_group", CharField(blank=True, max_length=60, validators=[validate_slug])),
    ("project", "group_weight", FloatField(**NULL)),
    ("cluster", "spared_minutes", FloatField(default=0.0)),
    ("project", "limit_notices", JSONField(default=dict, editable=False)),
)


class Migration(migrations.Migration):
    dependencies = (("runs", "0069_the_queue"),)
    operations = tuple(migrations.AddField(model, name, field) for model, name, field in FIELDS)
