"""Shares of slots: small runs of one rank may divide a slot among them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0043_privacy")]

    operations = [
        migrations.RemoveConstraint(model_name="heldslot", name="a_slot_is_held_once"),
        migrations.AddField(model_name="heldslot", name="share", field=models.PositiveSmallIntegerField(default=0)),
        migrations.AddField(
            model_name="heldslot", name="num_shares", field=models.PositiveSmallIntegerField(default=1)
        ),
        migrations.AddConstraint(
            model_name="heldslot",
            constraint=models.UniqueConstraint(fields=("node", "index", "share"), name="a_slot_is_held_once"),
        ),
        migrations.AddField(
            model_name="run", name="slot_shares", field=models.PositiveSmallIntegerField(default=1, editable=False)
        ),
    ]
