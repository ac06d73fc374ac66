"""Ordinary rows of an audit, with the variety of a real one, and ten misuses among them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from runs.models import AuditEntry

BEGIN = datetime(2030, 1, 7, tzinfo=UTC)  # a Monday
DAYS = 120
OFFICE = "198.51.100"
MINUTE = timedelta(minutes=1)


def entry(at: datetime, who: int | None = None, action: str = "runs.stop", **changes: Any) -> AuditEntry:
    actor = "" if who is None else f"person{who}"
    values: dict[str, Any] = {
        "at": at, "actor": actor, "actor_number": who, "token": "", "address": f"{OFFICE}.7",
        "action": action, "object": "", "result": "ok", "repeats": 1, "before": "", "after": "",
    }  # fmt: skip
    return AuditEntry(**{**values, **changes})


def closed(at: datetime, who: int, is_active: bool = False) -> AuditEntry:
    """A row by which an administrator closes somebody's account, or opens it again."""
    was, now = (f'{{"user {who}":{{"is_active":{str(value).lower()}}}}}' for value in (not is_active, is_active))
    return entry(at, 1, "admin.runs.user.change", object=f"user {who}", before=was, after=now)


class Traffic:
    """So many rows of 60 people, of whom some come later, travel, work at night or leave; of 5 service accounts that
    read much and steadily; of nodes, and of people who mistype."""

    def __init__(self, seed: int, number: int) -> None:
        self.chance, self.number = random.Random(seed), number
        self.revoked: dict[str, datetime] = {}
        self.rows: list[AuditEntry] = []
        self.misuses: dict[str, int] = {}

    def make(self) -> list[AuditEntry]:
        """Return all rows in their order, with the misuses. ``misuses`` counts these by words of their sentences."""
        self._services()
        self._nodes()
        people = list(range(1, 61))
        while len(self.rows) < self.number:
            for who in people:
                self._person(who)
        self.rows = self._evenly(self.number)
        self._misuse()
        self.rows.sort(key=lambda row: row.at)
        return self.rows

    def _evenly(self, number: int) -> list[AuditEntry]:
        """Keep so many; what opens and closes accounts, and the first fortnight of everybody, is never left out."""
        kept = [row for row in self.rows if row.after or row.at < self._begins(row.actor_number or 0) + 14 * DAY]
        rest = [row for row in self.rows if not (row.after or row.at < self._begins(row.actor_number or 0) + 14 * DAY)]
        return kept + self.chance.sample(rest, min(len(rest), max(0, number - len(kept))))

    def _begins(self, who: int) -> datetime:
        return BEGIN + (timedelta(days=15 + who) if 40 <= who < 50 else timedelta(0))

    def _ends(self, who: int) -> datetime:
        return BEGIN + timedelta(days=70 + who - 50 if 50 <= who < 55 else DAYS)

    def _person(self, who: int) -> None:
        """One day after another: home, office, or the second site of those who travel; now and then at night."""
        begins, ends = self._begins(who), self._ends(who)
        homes = [f"203.0.{who}", OFFICE, *([f"192.0.{who}"] if who % 3 == 0 else [])]
        night_owl, busy = who % 7 == 0, self.chance.uniform(2, 14)
        for number in range((ends - begins).days):
            day = begins + number * DAY
            if day.weekday() >= 5 and self.chance.random() < 0.8 and number > 7:
                continue
            home = homes[number % len(homes)] if number < 7 else self.chance.choice(homes)
            address = f"{home}.{self.chance.randint(1, 250)}"
            if who % 11 == 0 and home != OFFICE:
                address = f"2001:db8:{who:x}::{self.chance.randint(1, 99):x}"
            if who % 11 == 0 and number < 2:  # such a person has both kinds from the start
                self.rows += [entry(day + MINUTE, who, address=f"{one}.3") for one in homes]
            hour = self.chance.choice((1, 2, 22, 23)) if night_owl and self.chance.random() < 0.4 else 9
            acts = 2 + int(self.chance.expovariate(1 / busy))
            for _ in range(acts):
                at = day + timedelta(hours=hour, seconds=self.chance.uniform(0, 8 * 3600))
                self._act(who, min(at, ends - MINUTE), address)
        if ends < BEGIN + DAYS * DAY:
            self.rows.append(closed(ends, who))
            self.rows.append(entry(ends + timedelta(seconds=20), who, address=address))  # was under way
            if who == 53:  # comes back
                self.rows.append(closed(ends + 10 * DAY, who, is_active=True))
                self.rows += [entry(ends + 11 * DAY + k * MINUTE, who, address=address) for k in range(5)]

    def _act(self, who: int, at: datetime, address: str) -> None:
        dice, token = self.chance.random(), f"tok{who} laptop" if self.chance.random() < 0.3 else ""
        if dice < 0.05:  # mistypes a password, up to six times
            name = f"user person{who}"
            for k in range(self.chance.randint(1, 6)):
                self.rows.append(
                    entry(at + k * 5 * SECOND, None, "sign-in", object=name, address=address, result=WRONG)
                )
        elif dice < 0.12:
            result = self.chance.choice(("refused: 403", "refused: 404", "refused: 409", "refused: 422"))
            repeats = self.chance.randint(1, 4)
            self.rows.append(entry(at, who, "runs.launch", address=address, result=result, repeats=repeats))
        elif dice < 0.2:  # goes through the logs of a sweep
            for k in range(self.chance.randint(1, 60)):
                name = f"run {self.chance.randint(1, 3000)}"
                self.rows.append(entry(at + k * 40 * SECOND, who, "runs.logs.text.read", object=name, address=address))
        else:
            self.rows.append(entry(at, who, token=token, address=address, object=f"run {self.chance.randint(1, 900)}"))

    def _services(self) -> None:
        """Each hour as many logs, give or take; one of them is refused something every minute of a nightly hour."""
        for who in range(201, 206):
            rate = 8 * (who - 199)
            every = max(1, round(5 * 24 * DAYS * 36 / max(1, self.number * 0.3)))  # hours, by how many rows are wanted
            for hour in range(0, 24 * DAYS, every):
                at = BEGIN + timedelta(hours=hour)
                for k in range(self.chance.randint(rate, round(rate * 1.4))):
                    when = at + k * 3600 / (rate * 1.5) * SECOND
                    address = f"100.64.{who}.{self.chance.randint(1, 9)}"
                    name = f"run {hour * 100 + k}"
                    self.rows.append(
                        entry(when, who, "runs.logs.file.read", token=f"ci{who} ci", address=address, object=name)
                    )
                if who == 201 and hour % 24 == 2:
                    self.rows += [
                        entry(at + k * MINUTE, who, "runs.launch", address=f"100.64.{who}.1", result="refused: 403")
                        for k in range(60)
                    ]
        self.revoked["ci-old"] = BEGIN + 30 * DAY  # rotated as it should be
        self.rows += [entry(BEGIN + n * DAY, 201, token="ci-old x", address="100.64.201.1") for n in range(30)]

    def _nodes(self) -> None:
        """A gang's nodes fetch secrets at the same moment."""
        for day in range(0, DAYS, 3):
            at = BEGIN + day * DAY + timedelta(hours=self.chance.randint(0, 23))
            self.rows += [entry(at, None, "secrets.read", actor=f"node n{k}", address="10.0.0.9") for k in range(64)]

    def _misuse(self) -> None:
        late, times = BEGIN + 100 * DAY, iter(range(10))
        where = "185.220.101.4"
        at = [late + next(times) * DAY + timedelta(hours=self.chance.uniform(0, 20)) for _ in range(10)]
        found: list[tuple[str, list[AuditEntry]]] = [
            ("network", [entry(at[0], 3, address=where)]),
            ("network", [entry(at[1], 204, token="ci204 ci", address="45.9.148.7")]),
            ("network", [entry(at[2], 11, address="2a02:4780::9", token="tok11 laptop")]),
            ("refused", [entry(at[3] + k * 3 * SECOND, None, "sign-in", address=where, result=UNKNOWN, repeats=k % 3)
                          for k in range(60)]),
            ("refused", [entry(at[4] + k * 10 * SECOND, 20, f"secrets.{k}", result="refused: 403")
                          for k in range(45)]),
            ("refused", [entry(at[5] + k * MINUTE, None, "sign-in", address="45.9.148.7", result="refused: 429",
                                repeats=30) for k in range(12)]),
            ("read within", list(self._raid(at[6], 30, 700, 4 * SECOND, ""))),
            ("read within", list(self._raid(at[7], 205, 900, 3 * SECOND, "ci205 ci", "100.64.205.3"))),
            ("after it", [entry(at[8] + k * MINUTE, 52) for k in range(5)]),
            ("after it", [entry(at[9] + k * 7 * MINUTE, None, "runs", token="ci-old x", address="100.64.201.1",
                                     result="refused: 401") for k in range(9)]),
        ]  # fmt: skip
        for kind, rows in found:
            self.misuses[kind] = self.misuses.get(kind, 0) + 1
            self.rows += rows

    def _raid(
        self, at: datetime, who: int, number: int, pause: timedelta, token: str, address: str = f"{OFFICE}.9"
    ) -> Iterator[AuditEntry]:
        for k in range(number):
            what = {"action": "runs.logs.download.read", "object": f"run {k}", "token": token, "address": address}
            yield entry(at + k * pause, who, **what)


DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
WRONG, UNKNOWN = "refused: wrong password", "refused: unknown name"
