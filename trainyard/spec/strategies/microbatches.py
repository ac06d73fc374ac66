"""Into how many pieces a pipeline cuts model and batch: arithmetic, for the form as for the ranks."""

# Number of parts of the model that each stage's ranks hold: two where the schedule goes round twice.
CHUNKS = {"1f1b": 1, "gpipe": 1, "interleaved": 2, "zero-bubble": 2, "layer-wise": 1}
MICROBATCHES_A_STAGE = 2  # that auto takes, where the batch divides


def fits(schedule: str, stages: int, num_microbatches: int) -> bool:
    """Say whether ``schedule`` can order so many microbatches."""
    if schedule == "layer-wise":
        return num_microbatches == 1
    # Interleaved goes in rounds of equal length, each of as many microbatches as there are stages, or a few more.
    return schedule != "interleaved" or num_microbatches % max(1, num_microbatches // stages) == 0


def accepted_microbatches(schedule: str, stages: int, rows: int) -> list[int]:
    """Return what divides the ``rows`` of a pass and what ``schedule`` can order, smallest first; 1 always does."""
    small = [number for number in range(1, int(rows**0.5) + 1) if rows % number == 0]
    numbers = sorted({*small, *(rows // number for number in small)})
    return [number for number in numbers if fits(schedule, stages, number)]


def choose_microbatches(schedule: str, stages: int, asked: int | str, rows: int) -> int:
    """Return ``asked``, or for "auto" the most that are accepted up to two a stage. Raises ValueError where ``asked``
    is not accepted, naming what is."""
    accepted = accepted_microbatches(schedule, stages, rows)
    if asked == "auto":
        return max(number for number in accepted if number <= MICROBATCHES_A_STAGE * stages)
    if asked not in accepted:
        words = ", ".join(map(str, accepted[:12])) + (", …" if len(accepted) > 12 else "")
        raise ValueError(
            f"{asked} does not fit the {rows} samples that each copy of the model has in a pass (train.batch_size / "
            f"train.accumulate / copies) over {stages} stages with the schedule {schedule}; accepted: auto, {words}"
        )
    return int(asked)


def whole_backward_problem(schedule: str, is_compiled: bool, checkpointing: str) -> tuple[str, str] | None:
    """Return the field at fault and why, where zero-bubble is to cut in two a backward pass that cannot be cut."""
    if schedule != "zero-bubble":
        return None
    why = "which parallel.pipeline.schedule zero-bubble does not go with: it cuts each backward pass in two"
    if is_compiled:
        return "train.compile", f"true makes one piece of each block, {why}; accepted here: false"
    if checkpointing == "selective":
        words = f"selective keeps what it has kept for one backward pass, {why}; accepted here: none, full"
        return "train.activation_checkpointing", words
    return None
