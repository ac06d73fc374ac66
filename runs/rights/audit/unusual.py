"""Unusual access in rows of the audit: four signs, each a pure function of the rows in their order.

A person is compared with themselves: with the networks that they came from and with their busiest hour. Who is new is
learned first. The thresholds are measured in ``tests/runs/rights/audit/test_unusual.py``.
"""

import ipaddress
import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

LEARN, LEARN_ACTS = timedelta(days=7), 10  # of a person whose habits are not known yet
REFUSED_WITHIN, MANY_REFUSED = timedelta(minutes=10), 30
READ_WITHIN, MANY_READ = timedelta(hours=1), 100  # different things
TIMES_USUAL, TIMES_UNKNOWN = 3, 5  # more than in the busiest hour; more than MANY_READ of who is new
USUAL_AFTER = timedelta(days=1)
ENDING = timedelta(minutes=1)  # for requests that are under way when somebody leaves
MISTAKES = frozenset(f"refused: {status}" for status in (400, 404, 409, 413, 422))  # of whoever may do the like


class Entry(NamedTuple):
    """What of a row is looked at; the names are those of its columns."""

    sequence: int
    at: datetime
    actor: str
    actor_number: int | None
    token: str
    address: str
    action: str
    object: str
    result: str
    repeats: int
    before: str
    after: str

    @property
    def token_id(self) -> str:
        return self.token.partition(" ")[0] if self.token != "unknown" else ""


class Finding(NamedTuple):
    kind: str
    row: Entry
    sentence: str  # without names


Look = Callable[[Entry], str]  # returns a sentence, or "" where there is nothing unusual


def unusual(rows: Iterable[Entry], revoked: Mapping[str, datetime]) -> list[Finding]:
    """Return what is unusual in the rows, which come oldest first. ``revoked``: when tokens ended, by their id."""
    looks = {
        "new-network": _new_network(), "refusals": _refusals(), "mass-reading": _mass_reading(),
        "after-leaving": _after_leaving(revoked),
    }  # fmt: skip
    return [Finding(kind, row, words) for row in rows for kind, look in looks.items() if (words := look(row))]


def _new_network() -> Look:
    first: dict[int, datetime] = {}
    acts, known = Counter[int](), defaultdict[int, set[str]](set)

    def look(row: Entry) -> str:
        who, network = row.actor_number, network_of(row.address)
        if who is None or not network:
            return ""
        acts[who] += 1
        age = row.at - first.setdefault(who, row.at)
        is_new = age < LEARN or acts[who] <= LEARN_ACTS
        is_known = network in known[who]
        known[who].add(network)
        return "" if is_new or is_known else f"It is the first act from {network}{_by_token(row)}."

    return look


def _refusals() -> Look:
    lately = defaultdict[int | str, deque[tuple[datetime, int]]](deque)
    quiet_from: dict[int | str, datetime] = {}

    def look(row: Entry) -> str:
        if not row.result.startswith("refused") or row.result in MISTAKES:
            return ""
        source: int | str = row.address if row.actor_number is None else row.actor_number
        tries = lately[source]
        tries.append((row.at, row.repeats))
        while tries[0][0] < row.at - REFUSED_WITHIN:
            tries.popleft()
        if sum(number for _, number in tries) < MANY_REFUSED:
            return ""
        is_again, quiet_from[source] = row.at < quiet_from.get(source, row.at), row.at + REFUSED_WITHIN
        return "" if is_again else f"{MANY_REFUSED} or more tries were refused within ten minutes."

    return look


class _Reader:
    """What a person read lately. Their busiest hour is of the days before: a raid does not make itself usual."""

    def __init__(self, first: datetime) -> None:
        self.first, self.busiest, self.quiet_from = first, 0, first
        self._reads, self._seen = deque[tuple[datetime, str]](), Counter[str]()
        self._counts = deque[tuple[datetime, int]]()  # of the last day, not usual yet

    def count(self, at: datetime, name: str) -> int:
        """Return how many different things they read within the hour, this one too."""
        self._reads.append((at, name))
        self._seen[name] += 1
        while self._reads[0][0] < at - READ_WITHIN:
            _, gone = self._reads.popleft()
            self._seen[gone] -= 1
            if not self._seen[gone]:
                del self._seen[gone]
        while self._counts and self._counts[0][0] < at - USUAL_AFTER:
            self.busiest = max(self.busiest, self._counts.popleft()[1])
        return len(self._seen)

    def is_usual(self, at: datetime, number: int) -> None:
        self._counts.append((at, number))


def _mass_reading() -> Look:
    readers: dict[int, _Reader] = {}

    def look(row: Entry) -> str:
        if row.actor_number is None or row.result != "ok" or not row.action.endswith(".read"):
            return ""
        reader = readers.setdefault(row.actor_number, _Reader(row.at))
        number, is_new = reader.count(row.at, row.object), row.at - reader.first < LEARN
        most = TIMES_UNKNOWN * MANY_READ if is_new else max(MANY_READ, TIMES_USUAL * reader.busiest)
        if number < most:
            reader.is_usual(row.at, number)
            return ""
        is_again, reader.quiet_from = row.at < reader.quiet_from, row.at + READ_WITHIN
        return "" if is_again else f"{most} different things were read within an hour{_by_token(row)}."

    return look


def _after_leaving(revoked: Mapping[str, datetime]) -> Look:
    left: dict[str, datetime] = {f"token {key}": at for key, at in revoked.items()}
    reported: set[str] = set()

    def look(row: Entry) -> str:
        person = "" if row.actor_number is None else f"user {row.actor_number}"
        token = f"token {row.token_id}" if row.token_id else ""
        found = next((one for one in (person, token) if one in left and row.at > left[one] + ENDING), "")
        for one, is_gone in _comings_and_goings(row):
            reported.discard(one)
            if is_gone:
                left.setdefault(one, row.at)
            else:
                left.pop(one, None)
        if not found or found in reported:
            return ""
        reported.add(found)
        what = "A token was used after it was revoked" if found == token else "An account was used after it was closed"
        return f"{what}{'' if row.result == 'ok' else ', and was refused'}."

    return look


def _comings_and_goings(row: Entry) -> Iterator[tuple[str, bool]]:
    """Yield the people whom the act disabled or deleted (True), or enabled."""
    if "is_active" not in row.after and '"user ' not in row.before:
        return
    before, after = (json.loads(text) if text else {} for text in (row.before, row.after))
    for name in {**before, **after}:
        if name.startswith("user "):
            is_active = after.get(name, {}).get("is_active") if name in after else False
            if is_active is not None:
                yield name, not is_active


@lru_cache(maxsize=10_000)
def network_of(address: str) -> str:
    """Return the network that an address is counted to, as providers hand them out; "" for what is no address."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return ""
    found = getattr(found, "ipv4_mapped", None) or found
    return str(ipaddress.ip_network((found, 24 if found.version == 4 else 48), strict=False))


def _by_token(row: Entry) -> str:
    return f" by the token {row.token_id}" if row.token_id else ""
