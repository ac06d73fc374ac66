"""A token, an invitation and a join token know the token that made them, with which they end. Of older rows nobody
knows it: they stay."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models
from django.db.models import deletion


def by_token() -> models.ForeignKey[Any, Any]:
    return models.ForeignKey(blank=True, null=True, on_delete=deletion.CASCADE, related_name="+", to="runs.token")


class Migration(migrations.Migration):
    dependencies = [("runs", "0061_origins")]

    operations = [
        migrations.AddField(model_name=name, name="by_token", field=by_token())
        for name in ("token", "invitation", "jointoken")
    ]
