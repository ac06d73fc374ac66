from django.conf import settings
from django.core.validators import MaxLengthValidator
from django.db import migrations
from django.db.models import (
    CASCADE,
    SET_NULL,
    BigAutoField,
    BooleanField,
    CharField,
    DateTimeField,
    ForeignKey,
    JSONField,
    PositiveIntegerField,
    TextField,
    UniqueConstraint,
)

from runs.values.ids import new_id

USER = settings.AUTH_USER_MODEL


class Migration(migrations.Migration):
    dependencies = [("runs", "0067_experiments")]

    # fmt: off
    operations = [
        migrations.AddField("user", "home_left_at", DateTimeField(blank=True, editable=False, null=True)),
        migrations.AddField("user", "home_seen_at", DateTimeField(blank=True, editable=False, null=True)),
        migrations.CreateModel(name="SharedLink", fields=[
            ("id", CharField(default=new_id, editable=False, max_length=12, primary_key=True, serialize=False)),
            ("object", TextField()), ("digest", CharField(editable=False, max_length=64, unique=True)),
            ("created_at", DateTimeField(auto_now_add=True)), ("expires_at", DateTimeField()),
            ("revoked_at", DateTimeField(blank=True, null=True)), ("num_opened", PositiveIntegerField(default=0)),
            ("first_opened_at", DateTimeField(blank=True, null=True)),
            ("last_opened_at", DateTimeField(blank=True, null=True)),
            ("project", ForeignKey(on_delete=CASCADE, related_name="shared_links", to="runs.project")),
            ("by_token", ForeignKey(blank=True, null=True, on_delete=CASCADE, related_name="+", to="runs.token")),
            ("created_by", ForeignKey(null=True, on_delete=SET_NULL, related_name="shared_links", to=USER))],
            options={"ordering": ("-created_at",)}),
        migrations.CreateModel(name="Report", fields=[
            ("id", CharField(default=new_id, editable=False, max_length=12, primary_key=True, serialize=False)),
            ("title", CharField(max_length=200)), ("version", PositiveIntegerField(default=1)),
            ("is_archived", BooleanField(default=False)), ("created_at", DateTimeField(auto_now_add=True)),
            ("changed_at", DateTimeField(auto_now_add=True)),
            ("created_by", ForeignKey(null=True, on_delete=SET_NULL, related_name="+", to=USER)),
            ("project", ForeignKey(on_delete=CASCADE, related_name="reports", to="runs.project"))]),
        migrations.CreateModel(name="ReportComment", fields=[
            ("id", BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("number", PositiveIntegerField()), ("text", TextField(validators=[MaxLengthValidator(10000)])),
            ("at", DateTimeField(auto_now_add=True)),
            ("author", ForeignKey(null=True, on_delete=SET_NULL, related_name="+", to=USER)),
            ("report", ForeignKey(on_delete=CASCADE, related_name="comments", to="runs.report"))]),
        migrations.CreateModel(name="ReportVersion", fields=[
            ("id", BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
            ("number", PositiveIntegerField(default=1)), ("title", CharField(max_length=200)),
            ("body", TextField(blank=True, validators=[MaxLengthValidator(100000)])),
            ("pinned", JSONField(blank=True, null=True)), ("at", DateTimeField(auto_now_add=True)),
            ("author", ForeignKey(null=True, on_delete=SET_NULL, related_name="+", to=USER)),
            ("report", ForeignKey(on_delete=CASCADE, related_name="versions", to="runs.report"))],
            options={"constraints": [UniqueConstraint(fields=("report", "number"), name="one_version_of_a_number")]}),
    ]
