"""Unusual access in rows of the audit: four signs, each a pure function of the rows in their order.

A person is compared with themselves: with the networks that they came from, and with their busiest hour. Who is new is
learned first. How well it finds is measured in ``tests/runs/rights/audit/test_unusual.py``.
"""

import ipaddress
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import lru_cache

from runs.models.security import AuditEntry

LEARN, LEARN_ACTS = timedelta(days=7), 10  # of a person whose habits are not known yet
REFUSED_WITHIN, MANY_REFUSED = timedelta(minutes=10), 30
MISTAKES = frozenset(f"refused: {status}" for status in (400, 404, 409, 413, 422))  # of whoever may do the like
READ_WITHIN, MANY_READ = timedelta(hours=1), 100  # different things
TIMES_USUAL, TIMES_UNKNOWN = 3, 5  # more than in the busiest hour; more than MANY_READ of who is new
USUAL_AFTER = timedelta(days=1)
ENDING = timedelta(minutes=1)  # for requests that are under way when somebody leaves

Look = Callable[[AuditEntry], str]  # returns a sentence, or "" where there is nothing unusual
Finding = tuple[AuditEntry, str]  # and the sentence, without names of people


def unusual(rows: Iterable[AuditEntry], revoked: Mapping[str, datetime]) -> list[Finding]:
    """Return what is unusual in the rows, which come oldest first. ``revoked``: when tokens ended, by their id."""
    looks = _new_network(), _refusals(), _mass_reading(), _after_leaving(revoked)
    return [(row, sentence) for row in rows for look in looks if (sentence := look(row))]


def _new_network() -> Look:
    first: dict[int, datetime] = {}
    acts, known = Counter[int](), defaultdict[int, set[str]](set)

    def look(row: AuditEntry) -> str:
        who, network = row.actor_number, network_of(row.address)
        if who is None or not network:
            return ""
        acts[who] += 1
        age = row.at - first.setdefault(who, row.at)
        is_learned = age < LEARN or acts[who] <= LEARN_ACTS or network in known[who]
        known[who].add(network)
        return "" if is_learned else f"The first act from the network {network}{_by_token(row)}."

    return look


def _refusals() -> Look:
    lately = defaultdict[int | str, deque[tuple[datetime, int]]](deque)
    quiet_from: dict[int | str, datetime] = {}

    def look(row: AuditEntry) -> str:
        if not row.result.startswith("refused") or row.result in MISTAKES:
            return ""
        source = row.address if row.actor_number is None else row.actor_number
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
        self.first, self.quiet_from, self.busiest = first, first, 0
        self._reads, self._seen = deque[tuple[datetime, str]](), Counter[str]()
        self.counts = deque[tuple[datetime, int]]()  # that were usual, within the last day

    def count(self, at: datetime, name: str) -> int:
        """Return how many different things they read within the hour, this one too."""
        self._reads.append((at, name))
        self._seen[name] += 1
        while self._reads[0][0] < at - READ_WITHIN:
            _, gone = self._reads.popleft()
            self._seen[gone] -= 1
            if not self._seen[gone]:
                del self._seen[gone]
        while self.counts and self.counts[0][0] < at - USUAL_AFTER:
            self.busiest = max(self.busiest, self.counts.popleft()[1])
        return len(self._seen)


def _mass_reading() -> Look:
    readers: dict[int, _Reader] = {}

    def look(row: AuditEntry) -> str:
        if row.actor_number is None or row.result != "ok" or not row.action.endswith(".read"):
            return ""
        reader = readers.setdefault(row.actor_number, _Reader(row.at))
        number, is_new = reader.count(row.at, row.object), row.at - reader.first < LEARN
        most = TIMES_UNKNOWN * MANY_READ if is_new else max(MANY_READ, TIMES_USUAL * reader.busiest)
        if number < most:
            reader.counts.append((row.at, number))
            return ""
        is_again, reader.quiet_from = row.at < reader.quiet_from, row.at + READ_WITHIN
        return "" if is_again else f"{most} different things were read within an hour{_by_token(row)}."

    return look


def _after_leaving(revoked: Mapping[str, datetime]) -> Look:
    left = {f"token {key}": at for key, at in revoked.items()}
    reported: set[str] = set()

    def look(row: AuditEntry) -> str:
        who = f"user {row.actor_number}", f"token {row.token.partition(' ')[0]}"
        found = next((one for one in who if one in left and row.at > left[one] + ENDING), "")
        for one, is_gone in _comings_and_goings(row):
            reported.discard(one)
            left.pop(one, None)
            if is_gone:
                left[one] = row.at
        if not found or found in reported:
            return ""
        reported.add(found)
        what = "A token was used after it was revoked" if found == who[1] else "An account was used after it was closed"
        return f"{what}{'' if row.result == 'ok' else ', and was refused'}."

    return look


def _comings_and_goings(row: AuditEntry) -> Iterator[tuple[str, bool]]:
    """Yield the people whom the act disabled or deleted (True), or enabled."""
    if "is_active" not in row.after and '"user ' not in row.before:
        return
    before, after = row.values_before or {}, row.values_after or {}
    for name in filter(lambda name: name.startswith("user "), {**before, **after}):
        is_active = after[name].get("is_active") if name in after else False
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


def _by_token(row: AuditEntry) -> str:
    return f" by the token {row.token.partition(' ')[0]}" if row.token else ""
