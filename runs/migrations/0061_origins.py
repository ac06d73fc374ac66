"""A role knows which entry of the sign-in settings gave it, and an identity whether its provider keeps the person.

What SCIM made is kept by its provider; whom it may have disabled it may enable again, as before.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations, models


def mark(apps: Any, _editor: Any) -> None:
    made = apps.get_model("runs", "Identity").objects.filter(is_provisioned=True)
    made.update(keeps_person=True)
    made.filter(user__is_active=False).update(is_disabled_by_provider=True)


class Migration(migrations.Migration):
    dependencies = [("runs", "0060_job_by_name")]

    operations = [
        migrations.AddField(
            model_name="grouprole",
            name="origin",
            field=models.CharField(blank=True, editable=False, max_length=141),
        ),
        migrations.AddField(
            model_name="identity",
            name="keeps_person",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="identity",
            name="is_disabled_by_provider",
            field=models.BooleanField(default=False),
        ),
        migrations.RunPython(mark, migrations.RunPython.noop),
    ]
