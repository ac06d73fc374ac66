"""A run has beside its spec whether its ranks run in containers: placing passes over nodes that have no Podman. The
column may be empty: SQLite then adds it in place. Runs that are to be placed yet get it from their specs."""

from __future__ import annotations

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models import Q

FINAL = ("SUCCEEDED", "FAILED", "CANCELLED")


def fill(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    live = apps.get_model("runs", "Run")._default_manager.using(editor.connection.alias).exclude(status__in=FINAL)
    container = "spec__environment__container"
    asked = Q(**{f"{container}__image__gt": ""}) | Q(**{f"{container}__file__gt": ""})
    live.filter(asked).update(in_container=True)


class Migration(migrations.Migration):
    dependencies = [("runs", "0058_recipe_index")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="in_container",
            field=models.BooleanField(editable=False, null=True),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
