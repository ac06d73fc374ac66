"""Tracebacks in what ranks print: the exception that ended a cold rank, the user's own frame, the last lines."""

import os
import re
from pathlib import Path

import msgspec

import workers
from trainyard.contract.reports import RankError
from trainyard.failures.signs import RAYS, Standing, find_sign
from trainyard.formats.words import ANSI
from trainyard.spooling.plain_files import open_plain

MAX_CHARACTERS = 20_000
MAX_SOURCE = 80
TRACEBACK_BYTES = 65_536
EVIDENCE_LINES = 20
EVIDENCE_BYTES = 16_384
HEADER = "Traceback (most recent call last):"
PREFIX = re.compile(r"^\[rank(\d+)\]: ?", re.M)  # torch puts it before each line once there is a process group
ENDING = re.compile(r"([A-Za-z_][\w.]*)(?:: (.*))?", re.S)
FRAME = re.compile(r'^ *File "([^"\n]+)", line (\d+).*(?:\n {4,}(.+))?', re.M)
CRASH = "Fatal Python error"
OF_PROCESSES = ("ChildFailedError", "Py4JJavaError", "PythonException", "WorkerGroupError")  # not why it failed
DISTRIBUTOR_FAILED = "TorchDistributor failed during training"
LOST_PROCESS = re.compile(r"(?:ExecutorLostFailure \(|The actor died unexpectedly).*")
SNIPPET = re.compile(r"^\[Rank (\d+) Error Snippet\]:\n", re.M)  # Ray Train puts it before what a worker raised
KILLED_CHILD = re.compile(r"^  rank +: (\d+) .*\n  exitcode +: -\d+ .*\n.*\n  traceback : (Signal .*)", re.M)
OUR_FRAME = re.compile(rf'\s*File "(?:{re.escape(str(Path(workers.__file__).parent))}{os.sep}|<frozen runpy>)')


def error_in(text: str) -> RankError | None:
    """Return the last exception whose traceback stands in ``text``, as a warm rank would report it."""
    text = PREFIX.sub("", text)
    start = text.rfind(HEADER)
    if start < 0:
        return None
    lines = text[start:].splitlines()
    ends = (place for place, line in enumerate(lines) if place and line and not line[0].isspace())
    end = next((place for place in ends if "RayTaskError(" not in lines[place]), None)  # the task's own is below it
    if end is None or (ending := ENDING.fullmatch(lines[end])) is None:
        return None
    name, message = ending[1].rpartition(".")[2], ending[2] or ""
    if ending[2] is not None and not message.strip():  # it begins with a line end
        message = next((line for line in lines[end + 1 :] if line.strip()), "")
    trace = "\n".join(lines[: end + 1])[-MAX_CHARACTERS:]
    return RankError(type=name, message=message[:2000], traceback=trace + "\n")


def ending_in(text: str) -> RankError | None:
    """Return what ended a rank by what it wrote to stderr: its last exception, or, where Spark's or Ray Train's says no
    more than that a process failed, what ended that one. Torch marks the lines of each, once it has joined."""
    text = RAYS.sub("", text)
    driver, *snippets = SNIPPET.split(text)
    error = error_in(driver)
    is_distributors = error is not None and str(error.message).startswith(DISTRIBUTOR_FAILED)
    if error is not None and (is_distributors or error.type in OF_PROCESSES) and (lost := LOST_PROCESS.search(text)):
        return RankError(type=error.type, message=lost[0])
    found = []
    for rank, part in zip(snippets[::2], snippets[1::2], strict=True):  # Ray cuts the middle out of a long one
        if one := error_in(part) or error_in(HEADER + "\n" + part.rstrip().rpartition("\n")[2]):
            found.append(msgspec.structs.replace(one, message=f"{one.message} (rank {rank} of Ray Train)"))
    if not is_distributors:
        return min(found, key=_standing, default=error)
    if killed := KILLED_CHILD.search(text):
        return RankError(type="ChildFailedError", message=f"rank {killed[1]} of TorchDistributor: {killed[2]}")
    for rank in dict.fromkeys([*PREFIX.findall(text), ""]):
        lines = [line for line in text.splitlines() if (mark[1] if (mark := PREFIX.match(line)) else "") == rank]
        for trace in PREFIX.sub("", "\n".join(lines)).split(HEADER)[1:]:
            one = error_in(HEADER + trace)
            if one is not None and one.type not in OF_PROCESSES and not str(one.message).startswith(DISTRIBUTOR_FAILED):
                who = f"rank {rank} of TorchDistributor" if rank else "TorchDistributor"
                found.append(msgspec.structs.replace(one, message=f"{one.message} ({who})"))
    return min(found, key=_standing, default=error)


def _standing(error: RankError) -> Standing:
    known = find_sign(str(error.message))
    return known.sign.standing if known else Standing.OWN


def own_frame(trace: str, code: Path) -> tuple[str, int, str] | None:
    """Return file, line and source of the innermost frame that is the user's own."""
    for path, line, source in reversed(FRAME.findall(trace)):
        if Path(path).is_relative_to(code):
            return Path(path).relative_to(code).as_posix(), int(line), source.strip()[:MAX_SOURCE]
    return None


def last_lines(path: Path) -> list[str]:
    """Return the last lines of a stream without our own frames, or the lines from where Python itself crashed."""
    lines = [line for line in last_text(path, EVIDENCE_BYTES).splitlines() if not OUR_FRAME.match(line)]
    crashes = [place for place, line in enumerate(lines) if line.startswith(CRASH)]
    return lines[crashes[-1] :][:EVIDENCE_LINES] if crashes else lines[-EVIDENCE_LINES:]


def last_text(path: Path, num_bytes: int) -> str:
    try:
        with open_plain(path) as file:
            file.seek(max(0, file.seek(0, 2) - num_bytes))
            return ANSI.sub("", file.read().decode("utf-8", "replace"))
    except OSError:
        return ""
