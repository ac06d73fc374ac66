from django.db import migrations
from django.db.models import CASCADE, CharField, DateTimeField, ForeignKey, JSONField, UniqueConstraint

from runs.values.ids import new_id


class Migration(migrations.Migration):
    dependencies = [("runs", "0066_saved_views")]

    # fmt: off
    operations = [
        migrations.CreateModel(name="Experiment", fields=[
            ("id", CharField(default=new_id, editable=False, max_length=12, primary_key=True, serialize=False)),
            ("name", CharField(max_length=500)), ("tags", JSONField(blank=True, default=dict)),
            ("created_at", DateTimeField(auto_now_add=True)), ("changed_at", DateTimeField(auto_now=True)),
            ("archived_at", DateTimeField(blank=True, null=True)),
            ("project", ForeignKey(on_delete=CASCADE, related_name="experiments", to="runs.project"))],
            options={
                "ordering": ("name",),
                "constraints": [UniqueConstraint(fields=("project", "name"), name="one_experiment_per_name")]}),
    ]
