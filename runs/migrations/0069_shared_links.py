from django.conf import settings
from django.db import migrations
from django.db.models import CASCADE, SET_NULL, CharField, DateTimeField, ForeignKey, PositiveIntegerField, TextField

from runs.values.ids import new_id


class Migration(migrations.Migration):
    dependencies = [("runs", "0068_home_visits")]

    operations = [
        migrations.CreateModel(
            name="SharedLink",
            fields=[
                ("id", CharField(default=new_id, editable=False, max_length=12, primary_key=True, serialize=False)),
                ("object", TextField()),
                ("digest", CharField(editable=False, max_length=64, unique=True)),
                ("created_at", DateTimeField(auto_now_add=True)),
                ("expires_at", DateTimeField()),
                ("revoked_at", DateTimeField(blank=True, null=True)),
                ("num_opened", PositiveIntegerField(default=0)),
                ("first_opened_at", DateTimeField(blank=True, null=True)),
                ("last_opened_at", DateTimeField(blank=True, null=True)),
                ("project", ForeignKey(on_delete=CASCADE, related_name="shared_links", to="runs.project")),
                ("by_token", ForeignKey(blank=True, null=True, on_delete=CASCADE, related_name="+", to="runs.token")),
                (
                    "created_by",
                    ForeignKey(null=True, on_delete=SET_NULL, related_name="shared_links", to=settings.AUTH_USER_MODEL),
                ),
            ],
            options={"ordering": ("-created_at",)},
        )
    ]
