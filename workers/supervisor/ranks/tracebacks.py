"""Tracebacks in what ranks print: the exception that ended a cold rank, the user's own frame, the last lines."""

import os
import re
from pathlib import Path

import workers
from trainyard.contract.reports import RankError
from trainyard.failures.signs import Standing, find_sign
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
OF_SPARK = ("ChildFailedError", "Py4JJavaError", "PythonException")  # that a process failed, not why
DISTRIBUTOR_FAILED = "TorchDistributor failed during training"
LOST_EXECUTOR = re.compile(r"ExecutorLostFailure \(.*")
KILLED_CHILD = re.compile(r"^  rank +: (\d+) .*\n  exitcode +: -\d+ .*\n.*\n  traceback : (Signal .*)", re.M)
OUR_FRAME = re.compile(rf'\s*File "(?:{re.escape(str(Path(workers.__file__).parent))}{os.sep}|<frozen runpy>)')


def error_in(text: str) -> RankError | None:
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
    if ending[2] is not None and not message.strip():  # it begins with a line end
        message = next((line for line in lines[end + 1 :] if line.strip()), "")
    trace = "\n".join(lines[: end + 1])[-MAX_CHARACTERS:]
    return RankError(type=name, message=message[:2000], traceback=trace + "\n")


def distributor_error_in(text: str) -> RankError | None:
    """Return what ended a process of Spark's TorchDistributor, which Spark's own error in the driver does not say; None
    where none did. The driver's stderr has what the processes wrote, with torch's mark of the rank before a line."""
    if lost := LOST_EXECUTOR.search(text):
        return RankError(type="SparkException", message=lost[0])
    if DISTRIBUTOR_FAILED not in text:
        return None
    if killed := KILLED_CHILD.search(text):
        return RankError(type="ChildFailedError", message=f"rank {killed[1]} of TorchDistributor: {killed[2]}")
    by_mark: dict[str, list[str]] = {}
    for line in text.splitlines():
        mark = PREFIX.match(line)
        by_mark.setdefault(mark[1] if mark else "", []).append(line)
    for rank, lines in sorted(by_mark.items(), reverse=True):
        for trace in PREFIX.sub("", "\n".join(lines)).split(HEADER)[1:]:
            error = error_in(HEADER + trace)
            if error is not None and error.type not in OF_SPARK and not _is_of_another(error):
                who = f"rank {rank} of TorchDistributor" if rank else "TorchDistributor"
                first = error.message.partition("\n")[0]
                return RankError(type=error.type, message=f"{first} ({who})", traceback=error.traceback)
    return None


def _is_of_another(error: RankError) -> bool:
    found = find_sign(error.message)
    return error.message.startswith(DISTRIBUTOR_FAILED) or (found is not None and found.sign.standing != Standing.OWN)


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
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
