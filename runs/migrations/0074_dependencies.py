"""What a run waits for beside room: a time, other runs, its turn in an array."""

from django.db import migrations
from django.db.models import (
    CASCADE,
    SET_NULL,
    BigAutoField,
    BooleanField,
    CharField,
    DateTimeField,
    ForeignKey,
    OneToOneField,
)
from django.db.models import PositiveSmallIntegerField as Small

ID = ("id", BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"))


class Migration(migrations.Migration):
    dependencies = (("runs", "0069_the_queue"),)
    operations = (
        migrations.CreateModel(name="StartTerms", fields=[
            ("run",
                OneToOneField(on_delete=CASCADE, primary_key=True, related_name="start_terms",
                    serialize=False, to="runs.run")),
            ("not_before", DateTimeField(null=True)), ("deadline", DateTimeField(null=True)),
            ("array", CharField(blank=True, db_index=True, max_length=12)), ("array_index", Small(default=0)),
            ("at_once", Small(default=0))]),
        migrations.CreateModel(name="Dependency", fields=[
            ID, ("name", CharField(max_length=120)), ("must_succeed", BooleanField()),
            ("run", ForeignKey(on_delete=CASCADE, related_name="dependencies", to="runs.run")),
            ("other", ForeignKey(null=True, on_delete=SET_NULL, related_name="dependents", to="runs.run"))]),
    )  # fmt: skip
