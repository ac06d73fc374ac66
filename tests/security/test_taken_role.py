"""A member is removed while everything of theirs is under way, on a whole Trainyard: sockets, a terminal and a download
end within the promised time, and what they send is stored whole or not at all."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import psutil
import pytest

from tests.browser.conftest import tiny
from tests.up_process import Up
from tests.whole.runs import Yard, points
from trainyard.contract.base import encode
from trainyard.contract.sessions import SessionWish
from trainyard.rest.session import WebSocket

pytestmark = [pytest.mark.extended, pytest.mark.timeout(300)]

PROMISED_S = 5.0
SLACK_S = 1.5  # of a machine that has much else to do
FILE_BYTES = 2 * 1024**3  # sparse
MARK = f"sleep 987{uuid.uuid4().int % 10_000}"  # by which the terminal's process is found
POINTS_AT_ONCE = 20


@dataclass
class Activity:
    """Something that the member does until it is ended for them."""

    name: str
    work: Callable[[Activity], object]
    last_at: float = 0.0  # when something last came or was stored
    ended_at: float = 0.0
    code: int = 0
    num: int = 0
    thread: threading.Thread = field(init=False)

    def start(self) -> Activity:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        return self

    def _run(self) -> None:
        with contextlib.suppress(OSError, httpx.HTTPError):
            self.work(self)
        self.ended_at = time.monotonic()

    def came(self) -> None:
        self.num += 1
        self.last_at = time.monotonic()


@pytest.fixture
def run(yard: Yard) -> Iterator[str]:
    run_id = yard.submit(tiny("watched", steps=1_000_000))
    yard.wait_for_step(run_id, 2)
    yield run_id
    yard.post(f"/runs/{run_id}/stop")
    yard.wait_for_end(run_id)


@pytest.fixture
def member(yard: Yard) -> str:
    """The token of a service account that is a member."""
    account = yard.post("/projects/default/service-accounts", {"name": "leaver", "role": "member"})
    made = yard.post(f"/projects/default/service-accounts/{account['username']}/tokens", {"name": "x"})
    return str(made["secret"])


def test_everything_under_way_ends_when_the_role_is_taken(
    running_trainyard: Up, yard: Yard, run: str, member: str
) -> None:
    output = running_trainyard.home / "runs" / run / "output"
    output.mkdir(parents=True, exist_ok=True)
    with (output / "large.bin").open("wb") as file:
        file.truncate(FILE_BYTES)
    with httpx.Client(
        base_url=f"{running_trainyard.url}/api/v1", headers={"Authorization": f"Bearer {member}"}, timeout=30
    ) as http:
        ways = ways_of(running_trainyard.url, member, run, http)
        under_way = {name: Activity(name, work).start() for name, work in ways.items()}
        yard.wait_for(lambda: all(one.num >= 3 for one in under_way.values()), lambda: str(under_way), 60)
        assert processes_of_terminal()
        taken_at = time.monotonic()
        username = f"default.{'leaver'}"
        assert yard.http.delete(f"/projects/default/members/{username}").status_code == 204
        answered_at = time.monotonic()
        yard.wait_for(lambda: all(one.ended_at for one in under_way.values()), lambda: str(under_way), 60)
        print(f"\nThe role was taken in {answered_at - taken_at:.2f} s. After it:")
        for one in under_way.values():
            print(f"  {one.name:<10} ended after {one.ended_at - answered_at:5.2f} s, the last came after "
                  f"{one.last_at - answered_at:5.2f} s, {one.num} before, code {one.code}")  # fmt: skip
        late = {name: one.ended_at - answered_at for name, one in under_way.items()
                if one.ended_at - answered_at > PROMISED_S + SLACK_S}  # fmt: skip
        assert not late
        assert {name: under_way[name].code for name in ("run", "terminal")} == {"run": 4404, "terminal": 4404}
        yard.wait_for(lambda: not processes_of_terminal(), "the terminal's process lives on", 30)
        assert_whole(yard, run, under_way["points"])
        assert_named_once(yard, under_way["launches"])


def ways_of(url: str, token: str, run: str, http: httpx.Client) -> dict[str, Callable[[Activity], object]]:
    def watch(activity: Activity) -> None:
        with WebSocket(url, token, f"/ws/runs/{run}/") as socket:
            follow(activity, socket)

    def terminal(activity: Activity) -> None:
        script = f"{MARK} & while :; do echo tick; sleep 0.2; done"
        with WebSocket(url, token, f"/ws/runs/{run}/session/") as socket:
            socket.send(encode(SessionWish(rank=0, command=["sh", "-c", script], terminal=True)))
            follow(activity, socket)

    def download(activity: Activity) -> None:
        with http.stream("GET", f"/runs/{run}/files/large.bin") as answer:
            for _ in answer.iter_raw(256 * 1024):
                activity.came()
                time.sleep(0.02)

    return {
        "run": watch,
        "terminal": terminal,
        "download": download,
        "points": lambda activity: send_points(activity, http, run),
        "launches": lambda activity: launch(activity, http),
    }


def follow(activity: Activity, socket: WebSocket) -> None:
    for _ in socket.messages():
        activity.came()
    activity.code = socket.close_code


def send_points(activity: Activity, http: httpx.Client, run: str) -> None:
    """Report batch after batch, until one is refused."""
    producer = uuid.uuid4().hex
    for sequence in range(1, 100_000):
        first = (sequence - 1) * POINTS_AT_ONCE
        batch = [{"name": "member/value", "step": first + one, "value": 1.0} for one in range(POINTS_AT_ONCE)]
        answer = http.post(f"/runs/{run}/points", json={"producer": producer, "sequence": sequence, "points": batch})
        if answer.status_code != 200:
            activity.code = answer.status_code
            return
        activity.came()
        time.sleep(0.1)


def launch(activity: Activity, http: httpx.Client) -> None:
    """Launch run after run that no node can take yet, until one is refused."""
    for number in range(100_000):
        document: dict[str, Any] = tiny(f"of-the-leaver-{number}", steps=1)
        answer = http.post("/runs", json=document)
        if answer.status_code != 201:
            activity.code = answer.status_code
            return
        activity.came()
        time.sleep(0.5)


def processes_of_terminal() -> list[int]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if " ".join(process.info["cmdline"] or []) == MARK:
            found.append(process.pid)
    return found


def assert_whole(yard: Yard, run: str, activity: Activity) -> None:
    """Each batch that was acknowledged is stored, and nothing of the one that was refused."""
    stored = points(yard, run, "member/value")
    assert activity.code == 404
    assert sorted(stored) == list(range(activity.num * POINTS_AT_ONCE))


def assert_named_once(yard: Yard, activity: Activity) -> None:
    """As many runs are there as were answered: the refused one is not."""
    assert activity.code in (403, 404)
    found = yard.get("/runs", q="of-the-leaver", limit=200)["items"]
    assert len(found) == activity.num
    for one in found:
        yard.http.post(f"/runs/{one['id']}/stop")
