"""Regular expressions of people, in RE2's syntax: they take time in proportion to what they read, whatever they say.

RE2 is on nodes and servers. The terminal and the SDK do without it: there an expression is checked by the server.
"""

from collections.abc import Sequence
from typing import Any

MAX_PROGRAM = 5_000  # instructions: the worst of such takes a second or two for the longest chunk of a log there is


class BadExpression(ValueError):
    """A text that is no regular expression, or one that is too large."""


def compiled(source: str, **options: object) -> Any:
    """Return RE2's pattern for bytes of UTF-8. Raises re2.error."""
    import re2  # not where only the client is installed

    known = re2.Options()
    known.log_errors = False
    known.never_capture = True
    known.encoding = re2.Options.Encoding.UTF8
    for name, value in options.items():
        setattr(known, name, value)
    return re2.compile(source.encode("utf-8", "replace"), known)


def compiled_for_lines(source: str, *, is_case: bool = True) -> Any:
    """Return the pattern, sought line by line in a text of many. Raises BadExpression, with the place where RE2 knows
    it."""
    import re2  # not where only the client is installed

    try:
        found = compiled("(?m)" + by_lines(source), case_sensitive=is_case, never_nl=True)
    except re2.error as error:
        raise BadExpression(_reason(error, source)) from error
    if found.programsize > MAX_PROGRAM:
        raise BadExpression("the expression is too large: repeat less, or shorter parts")
    return found


def problem_of(source: str) -> str:
    """Return why this is no expression; empty where it is one, and where RE2 is not there to say."""
    try:
        compiled_for_lines(source)
    except BadExpression as error:
        return str(error)
    except ModuleNotFoundError:
        return ""
    return ""


def has_number(source: str) -> bool:
    """Return whether the expression has a group beside that of the step. True where RE2 is not there to say."""
    try:
        found = compiled(source, never_capture=False)
    except ModuleNotFoundError:
        return True
    return bool(found.groups - (b"step" in found.groupindex))


def _reason(error: Exception, source: str) -> str:
    reason = error.args[0] if error.args else "no regular expression"
    text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
    text = text.replace("(?m)", "", 1)  # which is ours
    _, _, fragment = text.rpartition(": ")
    place = source.find(fragment) if fragment and fragment != text else -1
    return text if place < 0 else f"{text} (at character {place + 1})"


def by_lines(source: str) -> str:
    r"""Return the expression with ^ and $ for \A and \z: the text that it is sought in is a line."""
    out, place, is_quoted = [], 0, False
    while place < len(source):
        two = source[place : place + 2]
        if two == r"\Q" or (is_quoted and two == r"\E"):
            is_quoted = two == r"\Q"
        elif not is_quoted and two in (r"\A", r"\z"):
            out.append("^" if two == r"\A" else "$")
            place += 2
            continue
        step = 2 if two[:1] == "\\" and (not is_quoted or two == r"\E") else 1
        out.append(source[place : place + step])
        place += step
    return "".join([*out, r"\E"] if is_quoted else out)


def compiled_any(sources: Sequence[str]) -> Any:
    """Return one pattern for lines that fit any of these expressions, each of which is one by itself."""
    return compiled("(?m)" + "|".join(f"(?:{by_lines(one)})" for one in sources), never_nl=True)
