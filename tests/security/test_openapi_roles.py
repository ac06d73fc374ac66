"""Every operation of the REST API as each caller, against its own OpenAPI document: no request makes the server fail,
and no answer has a status that the document does not name.

In one process, with everything in the database taken back after each request: so what deletes is tried too, on things
that are there. The same requests go out as each caller. ``SECURITY_EXAMPLES`` (4) is how many there are of each
operation, ``SECURITY_SEED`` (0) what they are made from and in which order they are tried, ``SECURITY_SECONDS`` (1200)
after how long it ends; what was not tried by then is counted.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode

from runs.api import api
from tests.cast import Cast
from tests.dashboard.rules.world import World, make_world
from tests.security.callers import Answer, Callers
from tests.servers import Valkey

EXAMPLES = int(os.environ.get("SECURITY_EXAMPLES", "4"))
SEED = int(os.environ.get("SECURITY_SEED", "0"))
SECONDS = float(os.environ.get("SECURITY_SECONDS", "1200"))
BASE = "http://testserver"
pytestmark = [pytest.mark.extended, pytest.mark.timeout(1800)]


@dataclass
class Tally:
    """What one caller got."""

    operations: set[str] = field(default_factory=set)
    answers: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    undocumented: list[str] = field(default_factory=list)

    def add(self, operation: Any, request: requests.PreparedRequest, answer: Answer) -> None:
        self.operations.add(operation.label)
        self.answers[answer.status] += 1
        words = (
            f"{operation.label}: {answer.status} {answer.failure}, for {request.path_url[:200]} {request.body!r:.300}"
        )
        if answer.status >= 500 and answer.status != 503:
            self.failures.append(words)
        elif str(answer.status) not in operation.definition.raw["responses"]:
            self.undocumented.append(words)


@pytest.fixture
def world(cast: Cast, valkey: Valkey) -> World:
    return make_world(cast)


def test_no_caller_makes_the_server_fail_or_gets_a_status_that_is_not_documented(world: World) -> None:
    began = time.monotonic()
    callers = Callers(world)
    tallies = {name: Tally() for name in callers.names()}
    schema = schemathesis.openapi.from_dict(api.get_openapi_schema(path_prefix="/api/v1/"))
    operations = [found.ok() for found in schema.get_all_operations()]
    random.Random(SEED).shuffle(operations)
    num_tried = 0
    for operation in operations:
        if time.monotonic() - began > SECONDS:
            break
        num_tried += 1
        for request in requests_of(operation, world):
            for name, tally in tallies.items():
                tally.add(operation, request, callers.send(name, request))
    report(tallies, time.monotonic() - began)
    print(f"{num_tried} of {len(operations)} operations")
    assert all(len(tally.operations) == num_tried for tally in tallies.values())
    found = {words for tally in tallies.values() for words in (*tally.failures, *tally.undocumented)}
    assert not found, "\n".join(sorted(found))


def report(tallies: dict[str, Tally], seconds: float) -> None:
    print(f"\n{'caller':<16}{'operations':>11}{'requests':>10}{'failures':>10}{'undocumented':>14}  answers")
    for name, tally in tallies.items():
        counts = ", ".join(f"{count} x {status}" for status, count in sorted(tally.answers.items()))
        print(
            f"{name:<16}{len(tally.operations):>11}{tally.answers.total():>10}{len(tally.failures):>10}"
            f"{len(tally.undocumented):>14}  {counts}"
        )
    print(f"{sum(tally.answers.total() for tally in tallies.values())} requests in {seconds:.0f} s, seed {SEED}")


def requests_of(operation: Any, world: World) -> Iterator[requests.PreparedRequest]:
    """Make what fits the document, and what does not; every second one names things that are there."""
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
        for number, case in enumerate(cases(operation, mode)):
            if number % 2 == 0:
                case.path_parameters = {**case.path_parameters, **there(case.path_parameters, world)}
            yield prepared(case)


def cases(operation: Any, mode: GenerationMode) -> list[Any]:
    found: list[Any] = []

    @seed(SEED)
    @settings(
        max_examples=max(2, EXAMPLES // 2), deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def collect(case: Any) -> None:
        found.append(case)

    try:
        collect()
    except Exception as error:  # an operation that takes anything has nothing that does not fit
        assert mode == GenerationMode.NEGATIVE, error
    return found


def there(names: Any, world: World) -> dict[str, str]:
    return {name: world.ids[name] for name in names if name in world.ids}


def prepared(case: Any) -> requests.PreparedRequest:
    words = case.as_transport_kwargs(base_url=BASE)
    known = {name: words[name] for name in ("method", "url", "params", "headers", "cookies", "data", "json", "files")
             if name in words}  # fmt: skip
    return requests.Request(**known).prepare()
