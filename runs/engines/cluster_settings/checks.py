"""Checks of a cluster's settings, shared by engines. Each takes a value and returns what is wrong with it, in words for
beside the field: without its name and a full stop; empty where it is fine. An empty value of a field that need not have
one is not checked."""

import math
import re
from collections.abc import Callable
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from trainyard.spec.values.durations import seconds_of

MAX_PATH = 200
MAX_MACHINES = 512
MAX_CPUS = 1_024
LEAST_LIMIT_S = 60.0


def number(least: int, most: int) -> Callable[[int], str]:
    return lambda value: "" if least <= value <= most else f"from {least} to {most}, not {value}"


def text(pattern: re.Pattern[str], words: str) -> Callable[[str], str]:
    """``words`` say what is accepted."""
    return lambda value: "" if pattern.fullmatch(value) else f"{words}, not {value[:100]!r}"


def path(value: str) -> str:
    is_plain = value.isprintable() and len(value) <= MAX_PATH and PurePosixPath(value).is_absolute()
    return "" if is_plain else f"an absolute path of at most {MAX_PATH} characters, not {value[:100]!r}"


def shared_folder(value: str) -> str:
    return path(value) if value else "a folder that all machines of the cluster share is needed"


def program(value: str) -> str:
    """An interpreter in an image."""
    is_plain = re.fullmatch(r"[A-Za-z0-9/][A-Za-z0-9._/+-]{0,199}", value)
    return "" if is_plain else f"a program's name or path in the image, not {value[:100]!r}"


def lines(pattern: re.Pattern[str], words: str, *, least: int = 0, most: int) -> Callable[[list[str]], str]:
    """``words`` say what each line is."""

    def check(values: list[str]) -> str:
        if not least <= len(values) <= most:
            return f"from {least} to {most} lines, each {words}; not {len(values)}"
        wrong = next((value for value in values if not pattern.fullmatch(value)), None)
        return "" if wrong is None else f"{words} in each line, not {wrong[:100]!r}"

    return check


def duration(least_s: float, most_s: float = math.inf) -> Callable[[str], str]:
    limits = f"at least {least_s:g} s" if most_s == math.inf else f"from {least_s:g} s to {most_s:g} s"

    def check(value: str) -> str:
        problem = read_by(seconds_of)(value)
        return problem or ("" if least_s <= seconds_of(value) <= most_s else f"{limits}, not {value!r}")

    return check


def read_by(read: Callable[[str], object]) -> Callable[[str], str]:
    """``read`` raises ValueError, which says what is wrong."""

    def check(value: str) -> str:
        try:
            read(value)
        except ValueError as error:
            return str(error)
        return ""

    return check


def server(value: str) -> str:
    """This server's address, or that of another one that is reached by HTTP."""
    try:
        parts = urlsplit(value)
        is_fine = parts.scheme in ("http", "https") and parts.hostname and value.isascii() and value.isprintable()
        is_fine = is_fine and " " not in value and parts.port != 0 and len(value) <= MAX_PATH
    except ValueError:
        is_fine = False
    return "" if is_fine else f"an address such as http://host:8000, not {value[:100]!r}"
