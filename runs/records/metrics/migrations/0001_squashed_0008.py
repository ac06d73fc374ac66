"""All tables of metrics. A database that the migrations named below made goes on from here when it has all of them."""

from django.db import migrations
from django.db.models import (
    CASCADE,
    BigAutoField,
    BigIntegerField,
    BinaryField,
    BooleanField,
    CharField,
    DateTimeField,
    FloatField,
    ForeignKey,
    Index,
    IntegerField,
    JSONField,
    PositiveBigIntegerField,
    PositiveIntegerField,
    PositiveSmallIntegerField,
    Q,
    TextField,
    UniqueConstraint,
)

REPLACED = [
    "0001_initial", "0002_checkpoints", "0003_media", "0004_logs", "0005_facts", "0006_states_in_memory",
    "0007_encrypted_checkpoints", "0008_series_by_name",
]  # fmt: skip
AUTO_ID = ("id", BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"))


class Migration(migrations.Migration):
    initial = True
    replaces = [("metrics", name) for name in REPLACED]

    dependencies = []

    # fmt: off
    operations = [
        migrations.CreateModel(name="Axis", fields=[
            AUTO_ID, ("run_id", CharField(db_index=True, max_length=12)), ("count", PositiveIntegerField()),
            ("data", BinaryField())], options={"verbose_name_plural": "axes"}),
        migrations.CreateModel(name="DeadLetter", fields=[
            AUTO_ID, ("run_id", CharField(blank=True, max_length=12)),
            ("node_id", CharField(blank=True, max_length=12)), ("producer", CharField(blank=True, max_length=32)),
            ("sequence", PositiveBigIntegerField(null=True)), ("reason", TextField()), ("size", PositiveIntegerField()),
            ("data", BinaryField()), ("at", DateTimeField(auto_now_add=True))]),
        migrations.CreateModel(name="Erasure", fields=[
            ("run_id", CharField(max_length=12, primary_key=True, serialize=False)),
            ("at", DateTimeField(auto_now_add=True))]),
        migrations.CreateModel(name="Telemetry", fields=[
            ("run_id", CharField(max_length=12, primary_key=True, serialize=False)),
            ("cursor", PositiveBigIntegerField(default=0)), ("compacted_cursor", PositiveBigIntegerField(default=0)),
            ("step", BigIntegerField(null=True)), ("step_at", FloatField(null=True)),
            ("median_step_s", FloatField(null=True)), ("attempt", PositiveIntegerField(default=0)),
            ("intervals_s", JSONField(default=list)), ("last_record_at", DateTimeField(null=True)),
            ("record_minute", PositiveIntegerField(db_index=True, default=0)),
            ("num_points", PositiveBigIntegerField(default=0)), ("num_lines", PositiveBigIntegerField(default=0)),
            ("troubles", JSONField(default=dict))], options={"verbose_name_plural": "telemetry"}),
        migrations.CreateModel(name="Block", fields=[
            AUTO_ID, ("run_id", CharField(max_length=12)), ("attempt", PositiveIntegerField()),
            ("cursor", PositiveBigIntegerField()), ("count", PositiveIntegerField()), ("data", BinaryField())],
            options={"indexes": [Index(fields=["run_id", "cursor"], name="block_run_cursor")]}),
        migrations.CreateModel(name="Checkpoint", fields=[
            AUTO_ID, ("run_id", CharField(max_length=12)), ("step", PositiveBigIntegerField()),
            ("fence", PositiveIntegerField()), ("bytes", PositiveBigIntegerField(null=True)),
            ("num_files", PositiveIntegerField(null=True)), ("world_size", PositiveIntegerField(null=True)),
            ("degrees", JSONField(default=dict)), ("took_s", FloatField(null=True)), ("stall_s", FloatField(null=True)),
            ("at", FloatField()), ("rank", IntegerField(default=-1)), ("node", CharField(blank=True, max_length=60)),
            ("producer", CharField(blank=True, max_length=32)), ("key_version", PositiveIntegerField(default=0)),
            ("is_late", BooleanField(default=False)), ("deleted_at", FloatField(null=True)),
            ("invalid_why", TextField(blank=True))],
            options={
                "constraints": [
                    UniqueConstraint(fields=("run_id", "step", "fence"), name="one_checkpoint_per_fence")]}),
        migrations.CreateModel(name="CheckpointUse", fields=[
            AUTO_ID, ("run_id", CharField(max_length=12)), ("attempt", PositiveIntegerField()),
            ("state", CharField(max_length=12)), ("source_run", CharField(blank=True, max_length=12)),
            ("memory", CharField(blank=True, max_length=300)), ("step", PositiveBigIntegerField(null=True)),
            ("fence", PositiveIntegerField(null=True)), ("at", FloatField()), ("why", TextField(blank=True))],
            options={
                "indexes": [
                    Index(fields=["run_id", "attempt"], name="checkpoint_use_run"),
                    Index(fields=["source_run", "step"], name="checkpoint_use_source")]}),
        migrations.CreateModel(name="Fact", fields=[
            AUTO_ID, ("run_id", CharField(max_length=12)), ("attempt", PositiveIntegerField()),
            ("name", CharField(max_length=40)), ("rank", IntegerField()), ("data", JSONField()), ("at", FloatField())],
            options={
                "constraints": [
                    UniqueConstraint(fields=("run_id", "name", "attempt", "rank"), name="one_fact_per_rank")]}),
        migrations.CreateModel(name="LogStream", fields=[
            AUTO_ID, ("run_id", CharField(max_length=12)), ("attempt", PositiveIntegerField()),
            ("rank", IntegerField()), ("name", CharField(max_length=8)),
            ("num_lines", PositiveBigIntegerField(default=0)), ("last_time", FloatField(default=0))],
            options={
                "constraints": [
                    UniqueConstraint(fields=("run_id", "attempt", "rank", "name"), name="one_log_stream")]}),
        migrations.CreateModel(name="Media", fields=[
            AUTO_ID, ("run_id", CharField(max_length=12)), ("name", TextField()), ("labels", JSONField(default=dict)),
            ("labels_key", TextField(default="{}")), ("kind", CharField(max_length=12)), ("step", BigIntegerField()),
            ("time", FloatField()), ("attempt", PositiveIntegerField()), ("rank", IntegerField(default=-1)),
            ("cursor", PositiveBigIntegerField()), ("meta", JSONField(default=dict)), ("size", PositiveIntegerField()),
            ("data", BinaryField())],
            options={
                "verbose_name_plural": "media",
                "indexes": [
                    Index(fields=["run_id", "name", "labels_key", "step"], name="media_run_step"),
                    Index(fields=["run_id", "cursor"], name="media_run_cursor")]}),
        migrations.CreateModel(name="NodeSample", fields=[
            AUTO_ID, ("node_id", CharField(max_length=12)), ("at", FloatField()), ("health", JSONField())],
            options={"constraints": [UniqueConstraint(fields=("node_id", "at"), name="one_sample_per_instant")]}),
        migrations.CreateModel(name="Producer", fields=[
            AUTO_ID, ("run_id", CharField(max_length=12)), ("producer", CharField(max_length=32)),
            ("attempt", PositiveIntegerField()), ("role", CharField(default="rank", max_length=12)),
            ("rank", IntegerField(default=-1)), ("node", CharField(blank=True, max_length=60)),
            ("watermark", PositiveBigIntegerField(default=0)), ("end_sequence", PositiveBigIntegerField(null=True)),
            ("has_gap", BooleanField(default=False)), ("num_dead_letters", PositiveIntegerField(default=0)),
            ("last_record_at", DateTimeField(null=True))],
            options={"constraints": [UniqueConstraint(fields=("run_id", "producer"), name="one_row_per_producer")]}),
        migrations.CreateModel(name="Series", fields=[
            AUTO_ID, ("run_id", CharField(max_length=12)), ("name", TextField()), ("labels", JSONField(default=dict)),
            ("labels_key", TextField(default="{}")), ("count", PositiveBigIntegerField(default=0)),
            ("first_step", BigIntegerField(null=True)), ("firsts", JSONField(default=dict)),
            ("last_step", BigIntegerField(null=True)), ("last_time", FloatField(null=True)),
            ("last_attempt", PositiveIntegerField(default=0)), ("last", FloatField(null=True)),
            ("min", FloatField(null=True)), ("max", FloatField(null=True)),
            ("last_text", CharField(blank=True, max_length=10))],
            options={
                "verbose_name_plural": "series", "indexes": [Index(fields=["name", "run_id"], name="series_by_name")],
                "constraints": [
                    UniqueConstraint(fields=("run_id", "name", "labels_key"), name="one_series_per_labels")]}),
        migrations.CreateModel(name="LogChunk", fields=[
            AUTO_ID, ("run_id", CharField(max_length=12)), ("cursor", PositiveBigIntegerField()),
            ("first_line", PositiveBigIntegerField()), ("num_lines", PositiveIntegerField()),
            ("size", PositiveIntegerField()), ("first_time", FloatField()), ("last_time", FloatField()),
            ("num_errors", PositiveIntegerField(default=0)), ("num_warnings", PositiveIntegerField(default=0)),
            ("num_infos", PositiveIntegerField(default=0)), ("num_debugs", PositiveIntegerField(default=0)),
            ("columns", BinaryField()), ("text", BinaryField()),
            ("stream", ForeignKey(on_delete=CASCADE, related_name="chunks", to="metrics.logstream"))],
            options={
                "indexes": [
                    Index(fields=["run_id", "cursor"], name="log_run_cursor"),
                    Index(
                        fields=[
                            "stream", "first_line", "num_lines", "first_time", "last_time", "num_errors",
                            "num_warnings", "num_infos", "num_debugs"],
                        name="log_stream_line"),
                    Index(
                        condition=Q(("num_lines__lt", 2048), ("size__lt", 262144)), fields=["run_id", "stream"],
                        name="log_small")]}),
        migrations.CreateModel(name="Segment", fields=[
            AUTO_ID, ("attempt", PositiveIntegerField()), ("cursor", PositiveBigIntegerField()),
            ("count", PositiveIntegerField()), ("first_step", BigIntegerField()), ("last_step", BigIntegerField()),
            ("first_time", FloatField()), ("last_time", FloatField()), ("is_sealed", BooleanField(default=False)),
            ("base", PositiveSmallIntegerField(default=0)), ("data", BinaryField()),
            ("axis", ForeignKey(on_delete=CASCADE, related_name="segments", to="metrics.axis")),
            ("series", ForeignKey(on_delete=CASCADE, related_name="segments", to="metrics.series"))],
            options={
                "indexes": [
                    Index(
                        fields=[
                            "series", "attempt", "first_step", "last_step", "first_time", "last_time", "count",
                            "is_sealed", "base"],
                        name="segment_series_step"),
                    Index(
                        condition=Q(("is_sealed", False)), fields=["series", "attempt", "cursor", "count"],
                        name="segment_unsealed")]}),
        migrations.CreateModel(name="Level", fields=[
            AUTO_ID, ("attempt", PositiveIntegerField()), ("level", PositiveSmallIntegerField()),
            ("count", PositiveIntegerField()), ("first_step", BigIntegerField()), ("last_step", BigIntegerField()),
            ("data", BinaryField()), ("series", ForeignKey(on_delete=CASCADE, related_name="levels", to="metrics.series"))],
            options={
                "indexes": [
                    Index(
                        fields=["series", "level", "attempt", "first_step", "last_step", "count"],
                        name="level_series_step")]}),
    ]
