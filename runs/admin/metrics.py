"""Records of the ranks, as far as single rows are useful to a person."""

from django.contrib import admin

from runs.admin.base import WrittenAdmin, size_of, time_of
from runs.records.metrics.models import (
    Axis,
    Block,
    Checkpoint,
    CheckpointUse,
    DeadLetter,
    Erasure,
    Fact,
    Level,
    LogChunk,
    LogStream,
    Media,
    NodeSample,
    Producer,
    Segment,
    Series,
    Telemetry,
)


@admin.register(Telemetry)
class TelemetryAdmin(WrittenAdmin):
    list_display = (
        "run_id",
        "cursor",
        "step",
        time_of("median_step_s", "time of a step"),
        "last_record_at",
        "num_points",
        "num_lines",
    )
    search_fields = ("run_id",)


@admin.register(Producer)
class ProducerAdmin(WrittenAdmin):
    list_display = ("producer", "run_id", "attempt", "role", "rank", "node", "watermark", "end_sequence", "has_gap")
    list_filter = ("role", "has_gap")
    search_fields = ("run_id", "producer")


@admin.register(DeadLetter)
class DeadLetterAdmin(WrittenAdmin):
    list_display = ("at", "run_id", "node_id", "producer", "sequence", size_of("size"), "reason")
    search_fields = ("run_id", "node_id", "reason")
    exclude = ("data",)


@admin.register(Series)
class SeriesAdmin(WrittenAdmin):
    list_display = ("name", "labels_key", "run_id", "count", "first_step", "last_step", "last", "min", "max")
    search_fields = ("run_id", "name")


@admin.register(Segment)
class SegmentAdmin(WrittenAdmin):
    list_display = ("series", "attempt", "count", "first_step", "last_step", "cursor", "is_sealed")
    exclude = ("data",)


@admin.register(Block)
class BlockAdmin(WrittenAdmin):
    list_display = ("run_id", "attempt", "cursor", "count")
    search_fields = ("run_id",)
    exclude = ("data",)


@admin.register(Axis)
class AxisAdmin(WrittenAdmin):
    list_display = ("run_id", "count")
    search_fields = ("run_id",)
    exclude = ("data",)


@admin.register(Level)
class LevelAdmin(WrittenAdmin):
    list_display = ("series", "attempt", "level", "count", "first_step", "last_step")
    exclude = ("data",)


@admin.register(LogStream)
class LogStreamAdmin(WrittenAdmin):
    list_display = ("run_id", "attempt", "rank", "name", "num_lines")
    search_fields = ("run_id",)


@admin.register(LogChunk)
class LogChunkAdmin(WrittenAdmin):
    list_display = (
        "run_id",
        "stream",
        "first_line",
        "num_lines",
        size_of("size"),
        "num_errors",
        "num_warnings",
        "cursor",
    )
    search_fields = ("run_id",)
    exclude = ("columns", "text")


@admin.register(Media)
class MediaAdmin(WrittenAdmin):
    list_display = ("run_id", "name", "labels_key", "kind", "step", "attempt", "rank", size_of("size"))
    list_filter = ("kind",)
    search_fields = ("run_id", "name")
    exclude = ("data",)


@admin.register(Checkpoint)
class CheckpointAdmin(WrittenAdmin):
    list_display = ("run_id", "step", "fence", size_of("bytes"), "node", "rank", "is_late", "deleted_at", "invalid_why")
    search_fields = ("run_id",)


@admin.register(CheckpointUse)
class CheckpointUseAdmin(WrittenAdmin):
    list_display = ("run_id", "attempt", "state", "source_run", "step", "fence", "why")
    list_filter = ("state",)
    search_fields = ("run_id", "source_run")


@admin.register(NodeSample)
class NodeSampleAdmin(WrittenAdmin):
    list_display = ("node_id", "at")
    search_fields = ("node_id",)


@admin.register(Erasure)
class ErasureAdmin(WrittenAdmin):
    list_display = ("run_id", "at")
    search_fields = ("run_id",)


@admin.register(Fact)
class FactAdmin(WrittenAdmin):
    list_display = ("name", "run_id", "attempt", "rank", "at")
    list_filter = ("name",)
    search_fields = ("run_id", "name")
