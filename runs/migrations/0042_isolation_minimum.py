import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0046_slot_shares"),
    ]

    operations = [
        migrations.AddField(
            model_name="cluster",
            name="isolation_minimum",
            field=models.PositiveSmallIntegerField(default=0, validators=[django.core.validators.MaxValueValidator(2)]),
        ),
    ]
