"""What a traceback says that ended a rank: read from what a cold rank printed, and put in words where torch's own do
not say what to do. Pure."""

from __future__ import annotations

import re
from pathlib import Path

from workers.contract import Document

MAX_CHARACTERS = 20_000
MAX_SOURCE = 80
HEADER = "Traceback (most recent call last):"
PREFIX = re.compile(r"^\[rank\d+\]: ?", re.M)  # torch puts it before each line once there is a process group
ENDING = re.compile(r"([A-Za-z_][\w.]*)(?:: (.*))?", re.S)
FRAME = re.compile(r'^ *File "([^"\n]+)", line (\d+).*(?:\n {4,}(.+))?', re.M)
NO_VARIABLE = re.compile(r"\b(RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|LOCAL_RANK|LOCAL_WORLD_SIZE)\b")
UNINITIALISED = "Default process group has not been initialized"


def error_in(text: str) -> Document | None:
    """Return the last exception whose traceback stands in ``text``, as a warm rank would report it."""
    text = PREFIX.sub("", text)
    start = text.rfind(HEADER)
    if start < 0:
        return None
    lines = text[start:].splitlines()
    end = next((place for place, line in enumerate(lines) if place and line and not line[0].isspace()), None)
    if end is None or (ending := ENDING.fullmatch(lines[end])) is None:
        return None
    name, message = ending[1].rpartition(".")[2], ending[2] or ""
    trace = "\n".join(lines[: end + 1])
    return {"type": name, "message": message[:2000], "traceback": trace[-MAX_CHARACTERS:] + "\n"}


def explained(error: Document, code: Path, *, has_joined: bool, has_no_torchrun: bool = False) -> Document:
    """Return the error with a message that names the place in the user's ``code``, where a process group was missing.

    ``has_joined`` says that there had been one, ``has_no_torchrun`` that the rank got none of torchrun's variables: one
    that misses them says where they come from. Any other error is returned as it is.
    """
    if has_no_torchrun and NO_VARIABLE.search(str(error.get("message"))):
        why = "the only process of a run has torchrun's variables where task.distributed is true"
        return {**error, "message": f"{str(error['message']).splitlines()[0]}; {why}."}
    if UNINITIALISED not in str(error.get("message")):
        return error
    place = _own_frame(str(error.get("traceback")), code)
    if place is None:
        return error
    file, line, source = place
    what = f"{file} line {line}: {source} needs a process group" if source else f"{file} line {line}"
    why = (
        "it was destroyed before: call torch.distributed.destroy_process_group() behind the last collective."
        if has_joined
        else "the process group was never initialised: call torch.distributed.init_process_group() before it."
    )
    return {**error, "message": f"{what}, and {why}" if source else f"{what}: {why}"}


def _own_frame(trace: str, code: Path) -> tuple[str, int, str] | None:
    """Return file, line and source of the innermost frame that is the user's own."""
    for path, line, source in reversed(FRAME.findall(trace)):
        if Path(path).is_relative_to(code):
            return Path(path).relative_to(code).as_posix(), int(line), source.strip()[:MAX_SOURCE]
    return None
