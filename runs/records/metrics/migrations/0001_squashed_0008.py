"""All tables of metrics. A database that the migrations named below made goes on from here when it has all of them."""

import django.db.models.deletion
from django.db import migrations, models

REPLACED = [
    "0001_initial",
    "0002_checkpoints",
    "0003_media",
    "0004_logs",
    "0005_facts",
    "0006_states_in_memory",
    "0007_encrypted_checkpoints",
    "0008_series_by_name",
]


class Migration(migrations.Migration):
    initial = True
    replaces = [("metrics", name) for name in REPLACED]

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Axis",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("run_id", models.CharField(db_index=True, max_length=12)),
                ("count", models.PositiveIntegerField()),
                ("data", models.BinaryField()),
            ],
            options={"verbose_name_plural": "axes"},
        ),
        migrations.CreateModel(
            name="DeadLetter",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("run_id", models.CharField(blank=True, max_length=12)),
                ("node_id", models.CharField(blank=True, max_length=12)),
                ("producer", models.CharField(blank=True, max_length=32)),
                ("sequence", models.PositiveBigIntegerField(null=True)),
                ("reason", models.TextField()),
                ("size", models.PositiveIntegerField()),
                ("data", models.BinaryField()),
                ("at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="Erasure",
            fields=[
                ("run_id", models.CharField(max_length=12, primary_key=True, serialize=False)),
                ("at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="Telemetry",
            fields=[
                ("run_id", models.CharField(max_length=12, primary_key=True, serialize=False)),
                ("cursor", models.PositiveBigIntegerField(default=0)),
                ("compacted_cursor", models.PositiveBigIntegerField(default=0)),
                ("step", models.BigIntegerField(null=True)),
                ("step_at", models.FloatField(null=True)),
                ("median_step_s", models.FloatField(null=True)),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("intervals_s", models.JSONField(default=list)),
                ("last_record_at", models.DateTimeField(null=True)),
                ("record_minute", models.PositiveIntegerField(db_index=True, default=0)),
                ("num_points", models.PositiveBigIntegerField(default=0)),
                ("num_lines", models.PositiveBigIntegerField(default=0)),
                ("troubles", models.JSONField(default=dict)),
            ],
            options={"verbose_name_plural": "telemetry"},
        ),
        migrations.CreateModel(
            name="Block",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("run_id", models.CharField(max_length=12)),
                ("attempt", models.PositiveIntegerField()),
                ("cursor", models.PositiveBigIntegerField()),
                ("count", models.PositiveIntegerField()),
                ("data", models.BinaryField()),
            ],
            options={"indexes": [models.Index(fields=["run_id", "cursor"], name="block_run_cursor")]},
        ),
        migrations.CreateModel(
            name="Checkpoint",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("run_id", models.CharField(max_length=12)),
                ("step", models.PositiveBigIntegerField()),
                ("fence", models.PositiveIntegerField()),
                ("bytes", models.PositiveBigIntegerField(null=True)),
                ("num_files", models.PositiveIntegerField(null=True)),
                ("world_size", models.PositiveIntegerField(null=True)),
                ("degrees", models.JSONField(default=dict)),
                ("took_s", models.FloatField(null=True)),
                ("stall_s", models.FloatField(null=True)),
                ("at", models.FloatField()),
                ("rank", models.IntegerField(default=-1)),
                ("node", models.CharField(blank=True, max_length=60)),
                ("producer", models.CharField(blank=True, max_length=32)),
                ("key_version", models.PositiveIntegerField(default=0)),
                ("is_late", models.BooleanField(default=False)),
                ("deleted_at", models.FloatField(null=True)),
                ("invalid_why", models.TextField(blank=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("run_id", "step", "fence"), name="one_checkpoint_per_fence")
                ]
            },
        ),
        migrations.CreateModel(
            name="CheckpointUse",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("run_id", models.CharField(max_length=12)),
                ("attempt", models.PositiveIntegerField()),
                ("state", models.CharField(max_length=12)),
                ("source_run", models.CharField(blank=True, max_length=12)),
                ("memory", models.CharField(blank=True, max_length=300)),
                ("step", models.PositiveBigIntegerField(null=True)),
                ("fence", models.PositiveIntegerField(null=True)),
                ("at", models.FloatField()),
                ("why", models.TextField(blank=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["run_id", "attempt"], name="checkpoint_use_run"),
                    models.Index(fields=["source_run", "step"], name="checkpoint_use_source"),
                ]
            },
        ),
        migrations.CreateModel(
            name="Fact",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("run_id", models.CharField(max_length=12)),
                ("attempt", models.PositiveIntegerField()),
                ("name", models.CharField(max_length=40)),
                ("rank", models.IntegerField()),
                ("data", models.JSONField()),
                ("at", models.FloatField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("run_id", "name", "attempt", "rank"), name="one_fact_per_rank")
                ]
            },
        ),
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
                ]
            },
        ),
        migrations.CreateModel(
            name="Media",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("run_id", models.CharField(max_length=12)),
                ("name", models.TextField()),
                ("labels", models.JSONField(default=dict)),
                ("labels_key", models.TextField(default="{}")),
                ("kind", models.CharField(max_length=12)),
                ("step", models.BigIntegerField()),
                ("time", models.FloatField()),
                ("attempt", models.PositiveIntegerField()),
                ("rank", models.IntegerField(default=-1)),
                ("cursor", models.PositiveBigIntegerField()),
                ("meta", models.JSONField(default=dict)),
                ("size", models.PositiveIntegerField()),
                ("data", models.BinaryField()),
            ],
            options={
                "verbose_name_plural": "media",
                "indexes": [
                    models.Index(fields=["run_id", "name", "labels_key", "step"], name="media_run_step"),
                    models.Index(fields=["run_id", "cursor"], name="media_run_cursor"),
                ],
            },
        ),
        migrations.CreateModel(
            name="NodeSample",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("node_id", models.CharField(max_length=12)),
                ("at", models.FloatField()),
                ("health", models.JSONField()),
            ],
            options={"constraints": [models.UniqueConstraint(fields=("node_id", "at"), name="one_sample_per_instant")]},
        ),
        migrations.CreateModel(
            name="Producer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("run_id", models.CharField(max_length=12)),
                ("producer", models.CharField(max_length=32)),
                ("attempt", models.PositiveIntegerField()),
                ("role", models.CharField(default="rank", max_length=12)),
                ("rank", models.IntegerField(default=-1)),
                ("node", models.CharField(blank=True, max_length=60)),
                ("watermark", models.PositiveBigIntegerField(default=0)),
                ("end_sequence", models.PositiveBigIntegerField(null=True)),
                ("has_gap", models.BooleanField(default=False)),
                ("num_dead_letters", models.PositiveIntegerField(default=0)),
                ("last_record_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("run_id", "producer"), name="one_row_per_producer")]
            },
        ),
        migrations.CreateModel(
            name="Series",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("run_id", models.CharField(max_length=12)),
                ("name", models.TextField()),
                ("labels", models.JSONField(default=dict)),
                ("labels_key", models.TextField(default="{}")),
                ("count", models.PositiveBigIntegerField(default=0)),
                ("first_step", models.BigIntegerField(null=True)),
                ("firsts", models.JSONField(default=dict)),
                ("last_step", models.BigIntegerField(null=True)),
                ("last_time", models.FloatField(null=True)),
                ("last_attempt", models.PositiveIntegerField(default=0)),
                ("last", models.FloatField(null=True)),
                ("min", models.FloatField(null=True)),
                ("max", models.FloatField(null=True)),
                ("last_text", models.CharField(blank=True, max_length=10)),
            ],
            options={
                "verbose_name_plural": "series",
                "indexes": [models.Index(fields=["name", "run_id"], name="series_by_name")],
                "constraints": [
                    models.UniqueConstraint(fields=("run_id", "name", "labels_key"), name="one_series_per_labels")
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
                            "stream",
                            "first_line",
                            "num_lines",
                            "first_time",
                            "last_time",
                            "num_errors",
                            "num_warnings",
                            "num_infos",
                            "num_debugs",
                        ],
                        name="log_stream_line",
                    ),
                    models.Index(
                        condition=models.Q(("num_lines__lt", 2048), ("size__lt", 262144)),
                        fields=["run_id", "stream"],
                        name="log_small",
                    ),
                ]
            },
        ),
        migrations.CreateModel(
            name="Segment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("attempt", models.PositiveIntegerField()),
                ("cursor", models.PositiveBigIntegerField()),
                ("count", models.PositiveIntegerField()),
                ("first_step", models.BigIntegerField()),
                ("last_step", models.BigIntegerField()),
                ("first_time", models.FloatField()),
                ("last_time", models.FloatField()),
                ("is_sealed", models.BooleanField(default=False)),
                ("base", models.PositiveSmallIntegerField(default=0)),
                ("data", models.BinaryField()),
                (
                    "axis",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="segments", to="metrics.axis"
                    ),
                ),
                (
                    "series",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="segments", to="metrics.series"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=[
                            "series",
                            "attempt",
                            "first_step",
                            "last_step",
                            "first_time",
                            "last_time",
                            "count",
                            "is_sealed",
                            "base",
                        ],
                        name="segment_series_step",
                    ),
                    models.Index(
                        condition=models.Q(("is_sealed", False)),
                        fields=["series", "attempt", "cursor", "count"],
                        name="segment_unsealed",
                    ),
                ]
            },
        ),
        migrations.CreateModel(
            name="Level",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("attempt", models.PositiveIntegerField()),
                ("level", models.PositiveSmallIntegerField()),
                ("count", models.PositiveIntegerField()),
                ("first_step", models.BigIntegerField()),
                ("last_step", models.BigIntegerField()),
                ("data", models.BinaryField()),
                (
                    "series",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="levels", to="metrics.series"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["series", "level", "attempt", "first_step", "last_step", "count"],
                        name="level_series_step",
                    )
                ]
            },
        ),
    ]
