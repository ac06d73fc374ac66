"""Notices, the rules by which they are sent, and events of which they are still to be made."""

from typing import Any

from django.conf import settings
from django.db import migrations, models
from django.utils import timezone

from runs.values.ids import new_id

KEY: dict[str, Any] = {"on_delete": models.CASCADE, "null": True}
SHORT: dict[str, Any] = {"max_length": 12, "primary_key": True, "serialize": False}


class Migration(migrations.Migration):
    dependencies = (("runs", "0075_speeds"),)
    operations = (
        migrations.CreateModel(name="NewEvent", fields=[("event", models.OneToOneField(
            primary_key=True, on_delete=models.CASCADE, related_name="+", serialize=False, to="runs.event"))]),
        migrations.CreateModel(name="NoticeRule", fields=[
            ("id", models.CharField(default=new_id, editable=False, **SHORT)),
            ("where", models.CharField(max_length=10)), ("kinds", models.JSONField(default=dict)),
            ("only_mine", models.BooleanField(default=False)), ("locked", models.TextField(blank=True)),
            ("shown", models.CharField(blank=True, max_length=255)),
            ("created_at", models.DateTimeField(default=timezone.now)),
            ("owner", models.ForeignKey(related_name="notice_rules", to=settings.AUTH_USER_MODEL, **KEY)),
            ("project", models.ForeignKey(related_name="notice_rules", to="runs.project", **KEY))],
            options={"ordering": ("created_at",), "constraints": (models.UniqueConstraint(
                fields=("owner",), condition=models.Q(where="page"), name="one_bell_per_person"),)}),
        migrations.CreateModel(name="Notice", fields=[
            ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("cause", models.CharField(max_length=300)), ("what", models.TextField()),
            ("place", models.CharField(max_length=300)), ("since", models.DateTimeField()),
            ("path", models.CharField(max_length=200)), ("count", models.PositiveIntegerField(default=1)),
            ("state", models.CharField(default="waiting", max_length=8)),
            ("tries", models.PositiveIntegerField(default=0)),
            ("next_at", models.DateTimeField(default=timezone.now)), ("problem", models.TextField(blank=True)),
            *((name, models.ForeignKey(related_name="+", to=f"runs.{name}", **KEY))
              for name in ("cluster", "project", "run")),
            ("rule", models.ForeignKey(
                on_delete=models.CASCADE, related_name="notices", to="runs.noticerule"))],
            options={"ordering": ("-id",), "indexes": (
                models.Index(fields=("state", "rule", "id"), name="notice_by_state"),), "constraints": (
                models.UniqueConstraint(fields=("rule", "cause"), name="one_notice_per_cause"),)}),
    )  # fmt: skip
