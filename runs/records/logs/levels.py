"""The level of a log line, as far as its text contains one. Pure.

Programs write a level in front of the message: a word in capitals behind a time and a name (``… - ERROR - …``,
``[WARNING]``), a letter and digits (``E0719 …``, glog and its kin), ``error:`` in small letters as compilers do, a name
and a sign (``level=warn``, ``"level": "error"``), or the last line of a traceback (``ValueError: …``). A word in the
middle of a sentence is none of these: "0 errors" is no error.
"""

import re
from itertools import pairwise

import re2

from trainyard.formats.words import ANSI

NONE, ERROR, WARNING, INFO, DEBUG = range(5)
NAMES = ("", "error", "warning", "info", "debug")
CODES = {name: code for code, name in enumerate(NAMES)}

LOOK_AT = 300  # characters: a level stands at the beginning
NUM_WORDS = 16  # …behind no more words than these
WORDS = {
    **dict.fromkeys(("error", "critical", "crit", "fatal", "alert", "emerg", "emergency", "severe", "panic"), ERROR),
    **dict.fromkeys(("warning", "warn"), WARNING),
    **dict.fromkeys(("info", "notice"), INFO),
    **dict.fromkeys(("debug", "trace", "verbose"), DEBUG),
}
LETTERS = {"E": ERROR, "F": ERROR, "C": ERROR, "W": WARNING, "I": INFO, "D": DEBUG}

# Whatever has none of these in it has no level: one look over many lines spares most of them the rest.
HINT = (
    rb"ERROR|CRIT|FATAL|EMERG|ALERT|SEVERE|PANIC|WARN|INFO|NOTICE|DEBUG|TRACE|VERBOSE"
    rb"|Error|Exception|Interrupt|Exit|Timeout|Traceback|Warning"
    rb"|error|warning[:\[]|fatal|panic|[Ll]evel|LEVEL|everity|EVERITY|[EWIFDC](?:\d{4} | )"
    rb"|[\[m](?:info|warn|debug|notice|crit|alert|emerg|severe|trace|verbose)"  # m: the end of a colour's code
)
RANK = re.compile(r"\s*\[(?:rank|default)?\d{1,6}\]:\s*")  # before each line of a rank, as launchers put it
LETTER = re.compile(r"\[?([EWIFDC])\d{4} \d\d:|\[([EWIFDC]) ")
RAISED = re.compile(
    r"Traceback \(most recent call last\):"
    r"|(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout)|ExceptionGroup)(?::\s|:?$)"
)
WARNED = re.compile(r"(?:[^:]{1,200}:\d+: )?(?:[A-Za-z_]\w*\.)*[A-Z]\w*Warning(?::\s|:?$)")
SMALL = re.compile(
    r"(?:[^\s:]{1,200}:\d+(?::\d+)?: |[\w.+-]{1,40}: )?"
    r"(?:(fatal|panic|[Ee]rror)(?: error)?|([Ww]arning))(?:\[\w{1,20}\])?:\s"
)
NAMED = re.compile(r"""\b(?:level|severity|levelname)"?\s?[=:]\s?"?([A-Za-z]{3,11})\b""", re.IGNORECASE)
EDGE = r"\s\[\](){}<>|:,\"'*"
LONGEST_FIRST = sorted(WORDS, key=len, reverse=True)
CAPITAL = re.compile(rf"(?:^|[{EDGE}])({'|'.join(LONGEST_FIRST).upper()})(?=[{EDGE}]|$)")
BRACKETED = re.compile(rf"\[({'|'.join(LONGEST_FIRST)})\s*\]")
NO_SENTENCE = re.compile(r"[\d\[\](){}<>|:./_=,\"-]")  # a time, a name with a dot, brackets: no word of a sentence
SEPARATORS = ("-", "|", ":", "--", "–", ">>")


def hints() -> re2._Regexp:
    """Return the pattern that every line with a level has in it."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    return re2.compile(HINT, options)


def level_of(text: str) -> int:
    """Return the code of the line's level, NONE where it has none."""
    head = text[:LOOK_AT]
    if "\x1b" in head:
        head = ANSI.sub("", head)
    if rank := RANK.match(head):
        head = head[rank.end() :]
    head = head.strip()
    if RAISED.match(head):
        return ERROR
    if WARNED.match(head):
        return WARNING
    if letter := LETTER.match(head):
        return LETTERS[letter[1] or letter[2]]
    if (word := CAPITAL.search(head) or BRACKETED.search(head)) and _is_no_sentence(head[: word.start(1)].split()):
        return WORDS[word[1].lower()]
    if small := SMALL.match(head):
        return ERROR if small[1] else WARNING
    if named := NAMED.search(head):
        return WORDS.get(named[1].lower(), NONE)
    return NONE


def _is_no_sentence(words: list[str]) -> bool:
    """Return whether these words can stand before a level: a name alone needs something between it and the level."""
    return len(words) <= NUM_WORDS and all(
        NO_SENTENCE.search(word) is not None or word.isupper() or after in SEPARATORS
        for word, after in pairwise([*words, ""])
    )
