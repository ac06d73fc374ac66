"""Records of the ranks, as rows of the metrics database. No foreign keys lead out of it: the product may live in
another file. Its one writer is ingest: everything below is written in the transaction of a round, or of a compaction.
"""

from django.db import models


class Series(models.Model):
    """One metric of one run with labels, and its running summary."""

    run_id = models.CharField(max_length=12)
    name = models.TextField()
    labels = models.JSONField(default=dict)
    labels_key = models.TextField(default="{}")  # canonical JSON of labels
    count = models.PositiveBigIntegerField(default=0)
    first_step = models.BigIntegerField(null=True)
    firsts = models.JSONField(default=dict)  # {attempt: its first step}: from there on it hides the older ones
    last_step = models.BigIntegerField(null=True)
    last_time = models.FloatField(null=True)
    last_attempt = models.PositiveIntegerField(default=0)
    last = models.FloatField(null=True)  # NaN is stored as null with last_text set
    min = models.FloatField(null=True)  # over finite values
    max = models.FloatField(null=True)
    last_text = models.CharField(max_length=10, blank=True)  # "NaN", "Infinity", "-Infinity", or ""

    class Meta:
        constraints = (models.UniqueConstraint(fields=("run_id", "name", "labels_key"), name="one_series_per_labels"),)
        indexes = (models.Index(fields=("name", "run_id"), name="series_by_name"),)
        verbose_name_plural = "series"

    def __str__(self) -> str:
        return f"{self.name} {self.labels_key}" if self.labels else self.name


class Block(models.Model):
    """A batch of small pieces: points of many series of one run in one row (runs.records.points.blocks).

    A slow run commits a point or two of each series at a time; a row for each would cost ten times the points.
    Compaction turns blocks into segments.
    """

    run_id = models.CharField(max_length=12)
    attempt = models.PositiveIntegerField()
    cursor = models.PositiveBigIntegerField()  # the batch it came with
    count = models.PositiveIntegerField()
    data = models.BinaryField()

    class Meta:
        indexes = (models.Index(fields=("run_id", "cursor"), name="block_run_cursor"),)

    def __str__(self) -> str:
        return f"{self.count} points of {self.run_id}"


class Axis(models.Model):
    """Steps and times that segments share: the series of one ``log`` call have exactly the same."""

    run_id = models.CharField(max_length=12, db_index=True)
    count = models.PositiveIntegerField()
    data = models.BinaryField()

    class Meta:
        verbose_name_plural = "axes"

    def __str__(self) -> str:
        return f"{self.count} steps of {self.run_id}"


class Segment(models.Model):
    """A stretch of points of one series: its values compressed, and where their steps and times are.

    Points lie in the order (step, time, arrival). A sealed segment is counted in every ladder level of the pyramid
    from ``base`` up (see runs.records.points.compaction.pyramid); one that is not sealed is in none.
    """

    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="segments")
    axis = models.ForeignKey(Axis, on_delete=models.CASCADE, related_name="segments")
    attempt = models.PositiveIntegerField()  # the attempt's fence: newest wins where steps overlap
    cursor = models.PositiveBigIntegerField()  # the newest batch in it
    count = models.PositiveIntegerField()
    first_step = models.BigIntegerField()
    last_step = models.BigIntegerField()
    first_time = models.FloatField()  # the earliest
    last_time = models.FloatField()  # the latest
    is_sealed = models.BooleanField(default=False)
    base = models.PositiveSmallIntegerField(default=0)
    data = models.BinaryField()

    class Meta:
        indexes = (
            # Everything by which readers choose, so that they touch no row that they do not read.
            models.Index(
                fields=(
                    "series", "attempt", "first_step", "last_step", "first_time", "last_time", "count", "is_sealed",
                    "base",
                ),
                name="segment_series_step",
            ),
            models.Index(
                fields=("series", "attempt", "cursor", "count"), condition=models.Q(is_sealed=False),
                name="segment_unsealed",
            ),
        )  # fmt: skip

    def __str__(self) -> str:
        return f"{self.count} points from step {self.first_step}"


class Level(models.Model):
    """A stretch of the pyramid: buckets of 2**level steps, aligned at multiples of that (points.compaction.pyramid)."""

    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="levels")
    attempt = models.PositiveIntegerField()
    level = models.PositiveSmallIntegerField()
    count = models.PositiveIntegerField()  # of buckets
    first_step = models.BigIntegerField()  # of a point in it
    last_step = models.BigIntegerField()
    data = models.BinaryField()

    class Meta:
        indexes = (
            models.Index(
                fields=("series", "level", "attempt", "first_step", "last_step", "count"), name="level_series_step"
            ),
        )

    def __str__(self) -> str:
        return f"{self.count} buckets of 2**{self.level} steps"


class LogStream(models.Model):
    """Output of one rank of one attempt on one of its streams: its lines are counted from 0, whatever came when."""

    run_id = models.CharField(max_length=12)
    attempt = models.PositiveIntegerField()
    rank = models.IntegerField()
    name = models.CharField(max_length=8)  # stdout, stderr or build
    num_lines = models.PositiveBigIntegerField(default=0)
    last_time = models.FloatField(default=0)  # the latest of all: no later line is placed before it

    class Meta:
        constraints = (models.UniqueConstraint(fields=("run_id", "attempt", "rank", "name"), name="one_log_stream"),)

    def __str__(self) -> str:
        return f"{self.name} of rank {self.rank}"


class LogChunk(models.Model):
    """Consecutive lines of one stream, compressed (see runs.records.logs.chunks). The chunks of a stream follow each
    other in their lines as in their times, and compaction joins small ones without changing either."""

    run_id = models.CharField(max_length=12)
    stream = models.ForeignKey(LogStream, on_delete=models.CASCADE, related_name="chunks")
    cursor = models.PositiveBigIntegerField()  # the newest batch in it
    first_line = models.PositiveBigIntegerField()
    num_lines = models.PositiveIntegerField()
    size = models.PositiveIntegerField()  # bytes of text, before they are compressed
    first_time = models.FloatField()  # as lines are placed: never before a line above
    last_time = models.FloatField()
    num_errors = models.PositiveIntegerField(default=0)
    num_warnings = models.PositiveIntegerField(default=0)
    num_infos = models.PositiveIntegerField(default=0)
    num_debugs = models.PositiveIntegerField(default=0)
    columns = models.BinaryField()  # times, levels and batches of its lines
    text = models.BinaryField()

    class Meta:
        indexes = (
            models.Index(fields=("run_id", "cursor"), name="log_run_cursor"),
            # Everything by which readers find a line, so that they touch no row that they do not read.
            models.Index(
                fields=(
                    "stream", "first_line", "num_lines", "first_time", "last_time", "num_errors", "num_warnings",
                    "num_infos", "num_debugs",
                ),
                name="log_stream_line",
            ),
            # For compaction.
            models.Index(
                fields=("run_id", "stream"),
                condition=models.Q(num_lines__lt=2048, size__lt=262_144),
                name="log_small",
            ),
        )  # fmt: skip

    def __str__(self) -> str:
        return f"{self.num_lines} lines from line {self.first_line}"


class Media(models.Model):
    """A logged value that is no number (see runs.records.media.kinds), at its step."""

    run_id = models.CharField(max_length=12)
    name = models.TextField()
    labels = models.JSONField(default=dict)
    labels_key = models.TextField(default="{}")  # canonical JSON of labels
    kind = models.CharField(max_length=12)
    step = models.BigIntegerField()
    time = models.FloatField()  # Unix seconds at the rank
    attempt = models.PositiveIntegerField()
    rank = models.IntegerField(default=-1)
    cursor = models.PositiveBigIntegerField()  # the batch it came with
    meta = models.JSONField(default=dict)  # what is shown without the data: caption, width and height, numbers of rows
    size = models.PositiveIntegerField()  # bytes of data, before they are compressed
    data = models.BinaryField()

    class Meta:
        indexes = (
            models.Index(fields=("run_id", "name", "labels_key", "step"), name="media_run_step"),
            models.Index(fields=("run_id", "cursor"), name="media_run_cursor"),
        )
        verbose_name_plural = "media"

    def __str__(self) -> str:
        return f"{self.kind} {self.name} at step {self.step}"


class Producer(models.Model):
    """A process that writes a spool; the watermark is its longest committed prefix of frames without a gap."""

    run_id = models.CharField(max_length=12)
    producer = models.CharField(max_length=32)
    attempt = models.PositiveIntegerField()
    role = models.CharField(max_length=12, default="rank")  # rank, supervisor, rest
    rank = models.IntegerField(default=-1)
    node = models.CharField(max_length=60, blank=True)
    watermark = models.PositiveBigIntegerField(default=0)
    end_sequence = models.PositiveBigIntegerField(null=True)  # of its end record, when it has come
    has_gap = models.BooleanField(default=False)
    num_dead_letters = models.PositiveIntegerField(default=0)
    last_record_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("run_id", "producer"), name="one_row_per_producer"),)

    def __str__(self) -> str:
        return f"{self.producer} at {self.watermark}"


class Telemetry(models.Model):
    """Facts about a run from its records alone: the cursor, and how far and how fast it steps."""

    run_id = models.CharField(primary_key=True, max_length=12)
    cursor = models.PositiveBigIntegerField(default=0)  # counts the run's committed batches
    compacted_cursor = models.PositiveBigIntegerField(default=0)  # up to here single batches are no longer known
    step = models.BigIntegerField(null=True)
    step_at = models.FloatField(null=True)  # Unix seconds at the rank
    median_step_s = models.FloatField(null=True)
    attempt = models.PositiveIntegerField(default=0)  # whose step it is
    intervals_s = models.JSONField(default=list)  # what the median is over: seconds per step, newest last
    last_record_at = models.DateTimeField(null=True)  # the server's clock
    # The same in Unix minutes: its index finds the runs that report, and is written once a minute.
    record_minute = models.PositiveIntegerField(default=0, db_index=True)
    num_points = models.PositiveBigIntegerField(default=0)
    num_lines = models.PositiveBigIntegerField(default=0)
    troubles = models.JSONField(default=dict)  # {code: how often}: see runs.ingest.troubles

    class Meta:
        verbose_name_plural = "telemetry"

    def __str__(self) -> str:
        return f"{self.run_id} at {self.cursor}"


class CheckpointQuerySet(models.QuerySet["Checkpoint"]):
    def sound(self) -> "CheckpointQuerySet":
        """Return the checkpoints that a training may go on from."""
        return self.filter(deleted_at=None, invalid_why="", is_late=False)


class Checkpoint(models.Model):
    """A state of a run that lies on its nodes' disks, as far as its records say. What can be gone on from is neither
    deleted, nor invalid, nor late (see runs.records.checkpoints.read)."""

    run_id = models.CharField(max_length=12)
    step = models.PositiveBigIntegerField()  # of the optimizer, behind which it was taken
    fence = models.PositiveIntegerField()  # of the attempt that wrote it
    bytes = models.PositiveBigIntegerField(null=True)
    num_files = models.PositiveIntegerField(null=True)
    world_size = models.PositiveIntegerField(null=True)
    degrees = models.JSONField(default=dict)  # {axis: number of ranks}
    took_s = models.FloatField(null=True)  # from the copy in memory to the name on the disk
    stall_s = models.FloatField(null=True)  # for which training stood still
    at = models.FloatField()  # Unix seconds, by the rank or, without its time, by the server
    rank = models.IntegerField(default=-1)
    node = models.CharField(max_length=60, blank=True)
    producer = models.CharField(max_length=32, blank=True)
    key_version = models.PositiveIntegerField(default=0)  # of the project's storage key; 0: it is not encrypted
    is_late = models.BooleanField(default=False)  # it arrived when a newer attempt had already begun
    deleted_at = models.FloatField(null=True)
    invalid_why = models.TextField(blank=True)

    objects = CheckpointQuerySet.as_manager()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("run_id", "step", "fence"), name="one_checkpoint_per_fence"),)

    def __str__(self) -> str:
        return f"{self.run_id}@{self.step}"

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"step-{self.step}.fence-{self.fence}"


class CheckpointUse(models.Model):
    """An attempt's report on checkpoints that it read, or on why it keeps none; also on states in memory."""

    run_id = models.CharField(max_length=12)  # the reporting run
    attempt = models.PositiveIntegerField()  # …in the attempt with this fence
    state = models.CharField(max_length=12)  # restored, invalid, off
    source_run = models.CharField(max_length=12, blank=True)  # whose checkpoint it is about
    memory = models.CharField(max_length=300, blank=True)  # names of nodes: it is about a state in their memory
    step = models.PositiveBigIntegerField(null=True)
    fence = models.PositiveIntegerField(null=True)
    at = models.FloatField()
    why = models.TextField(blank=True)

    class Meta:
        indexes = (
            models.Index(fields=("run_id", "attempt"), name="checkpoint_use_run"),
            models.Index(fields=("source_run", "step"), name="checkpoint_use_source"),
        )

    def __str__(self) -> str:
        return f"{self.state} {self.source_run}@{self.step} by {self.run_id}"


class Fact(models.Model):
    """A fact that a rank found out about its run: one document by name (see runs.records.metrics.progress)."""

    run_id = models.CharField(max_length=12)
    attempt = models.PositiveIntegerField()  # its fence
    name = models.CharField(max_length=40)
    rank = models.IntegerField()
    data = models.JSONField()
    at = models.FloatField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("run_id", "name", "attempt", "rank"), name="one_fact_per_rank"),)

    def __str__(self) -> str:
        return f"{self.name} of {self.run_id}"


class Erasure(models.Model):
    """A run whose data nobody reads any more and that is being deleted, a slice at a time."""

    run_id = models.CharField(primary_key=True, max_length=12)
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.run_id


class NodeSample(models.Model):
    """One health sample of a node."""

    node_id = models.CharField(max_length=12)
    at = models.FloatField()
    health = models.JSONField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("node_id", "at"), name="one_sample_per_instant"),)

    def __str__(self) -> str:
        return f"{self.node_id} at {self.at}"


class DeadLetter(models.Model):
    """A frame that could not be stored, with the reason, for a person to look at."""

    run_id = models.CharField(max_length=12, blank=True)
    node_id = models.CharField(max_length=12, blank=True)
    producer = models.CharField(max_length=32, blank=True)
    sequence = models.PositiveBigIntegerField(null=True)
    reason = models.TextField()
    size = models.PositiveIntegerField()  # in bytes, as it came
    data = models.BinaryField()  # its beginning
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.reason
