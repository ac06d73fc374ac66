import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Lines are numbered in their streams. Chunks of before have no numbers; nobody keeps them."""

    dependencies = [("metrics", "0003_media")]

    operations = [
        migrations.DeleteModel(name="LogChunk"),
        migrations.CreateModel(
            name="LogStream",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("run_id", models.CharField(max_length=12)),
                ("attempt", models.PositiveIntegerField()),
                ("rank", models.IntegerField()),
                ("name", models.CharField(max_length=8)),
                ("num_lines", models.PositiveBigIntegerField(default=0)),
                ("last_time", models.FloatField(default=0)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("run_id", "attempt", "rank", "name"), name="one_log_stream")
                ],
            },
        ),
        migrations.CreateModel(
            name="LogChunk",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("run_id", models.CharField(max_length=12)),
                ("cursor", models.PositiveBigIntegerField()),
                ("first_line", models.PositiveBigIntegerField()),
                ("num_lines", models.PositiveIntegerField()),
                ("size", models.PositiveIntegerField()),
                ("first_time", models.FloatField()),
                ("last_time", models.FloatField()),
                ("num_errors", models.PositiveIntegerField(default=0)),
                ("num_warnings", models.PositiveIntegerField(default=0)),
                ("num_infos", models.PositiveIntegerField(default=0)),
                ("num_debugs", models.PositiveIntegerField(default=0)),
                ("columns", models.BinaryField()),
                ("text", models.BinaryField()),
                (
                    "stream",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="chunks", to="metrics.logstream"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["run_id", "cursor"], name="log_run_cursor"),
                    models.Index(
                        fields=[
                            "stream", "first_line", "num_lines", "first_time", "last_time", "num_errors",
                            "num_warnings", "num_infos", "num_debugs",
                        ],
                        name="log_stream_line",
                    ),
                    models.Index(
                        condition=models.Q(("num_lines__lt", 2048), ("size__lt", 262144)),
                        fields=["run_id", "stream"],
                        name="log_small",
                    ),
                ],
            },
        ),
    ]  # fmt: skip
