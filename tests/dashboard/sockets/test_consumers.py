from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from channels.db import database_sync_to_async
from django.conf import settings
from django.test import Client

from dashboard.asgi import application
from dashboard.sockets import admission as door
from dashboard.sockets import feeds
from dashboard.sockets.admission import UNAVAILABLE
from dashboard.sockets.consumers import MAX_FRAMES
from runs import actions
from runs.ingest.commit import Source, commit
from runs.ingest.push import push_now
from runs.ingest.validation.records import incoming
from runs.models import Membership, Run, User
from runs.serving import broadcast
from tests.cast import Cast
from tests.datasets import make_dataset
from tests.sockets import Socket
from tests.spools import Spool, some_points

pytestmark = [pytest.mark.django_db(transaction=True, databases="__all__"), pytest.mark.usefixtures("valkey")]

NAME = settings.SESSION_COOKIE_NAME
HOST = b"127.0.0.1:8000"
ORIGIN = (b"origin", b"http://127.0.0.1:8000")


@pytest.fixture
def run(make_run: Callable[..., Run]) -> Run:
    return make_run()


@pytest.fixture(autouse=True)
def quick_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "PING_EVERY_S", 0.1)
    monkeypatch.setattr(door, "EVERY_S", 0.1)


def by_token(user: User) -> tuple[bytes, bytes]:
    _, secret = actions.create_token(actor=user, name="socket", expires_at=None)
    return b"authorization", f"Bearer {secret}".encode()


def by_session(user: User) -> tuple[tuple[bytes, bytes], Client]:
    client = Client()
    client.force_login(user)
    return (b"cookie", f"{NAME}={client.cookies[NAME].value}".encode()), client


def socket(path: str, *headers: tuple[bytes, bytes]) -> Socket:
    return Socket(application, path, (b"host", HOST), *headers)


@database_sync_to_async
def store(run: Run, frame: bytes, *, push: bool = True) -> None:
    committed = commit(run.pk, fence=1, source=Source("node1", "node-a"), batch=incoming(frame))
    if push:
        push_now(committed)


async def test_points_and_lines_arrive_with_their_cursor(cast: Cast, run: Run) -> None:
    header, _ = await database_sync_to_async(by_session)(cast.viewer)
    watch = socket(f"/ws/runs/{run.pk}/", ORIGIN, header)
    assert await watch.connect()
    assert await watch.receive() == {"type": "ping", "cursor": 0}
    spool = Spool()
    await store(run, spool.points([(1, 2.0, float("nan"))]) + spool.logs([(3.0, "hello")], rank=1))
    lines, points = await watch.receive_more_than_pings(), await watch.receive_more_than_pings()
    assert lines == {
        "type": "logs",
        "from": 0,
        "cursor": 0,
        "lines": [{"rank": 1, "stream": "stdout", "time": 3.0, "text": "hello"}],
    }
    assert points == {
        "type": "points",
        "from": 0,
        "cursor": 1,
        "series": [{"name": "train/loss", "labels": {}, "attempt": 1, "step": [1], "time": [2.0], "value": ["NaN"]}],
    }
    await database_sync_to_async(broadcast.run_changed)(run.pk)
    assert await watch.receive_more_than_pings() == {"type": "run"}
    await watch.leave()


async def test_who_comes_back_with_a_cursor_gets_what_came_since_once(cast: Cast, run: Run) -> None:
    spool = Spool()
    await store(run, spool.points(some_points(1, 2)))
    await store(run, spool.points(some_points(3, 2)))
    header = await database_sync_to_async(by_token)(cast.viewer)
    watch = socket(f"/ws/runs/{run.pk}/?since=1", ORIGIN, header)
    assert await watch.connect()
    message = await watch.receive_more_than_pings()
    assert (message["from"], message["cursor"], message["series"][0]["step"]) == (1, 2, [3, 4])
    await store(run, spool.points(some_points(5, 1)))
    message = await watch.receive_more_than_pings()
    assert (message["from"], message["cursor"], message["series"][0]["step"]) == (2, 3, [5])
    await watch.leave()


async def test_a_push_that_was_lost_is_made_good_at_the_next_message_or_ping(cast: Cast, run: Run) -> None:
    header = await database_sync_to_async(by_token)(cast.viewer)
    watch = socket(f"/ws/runs/{run.pk}/?since=0", ORIGIN, header)
    assert await watch.connect()
    spool = Spool()
    steps: list[int] = []
    for first in range(1, 9):
        await store(run, spool.points(some_points(first, 1)), push=first % 3 == 0)
    while len(steps) < 8:
        steps += (await watch.receive_more_than_pings())["series"][0]["step"]
    assert steps == list(range(1, 9))
    await watch.leave()


async def test_too_much_at_once_says_refetch(cast: Cast, run: Run) -> None:
    await store(run, Spool().points(some_points(1, 20_001)))
    header = await database_sync_to_async(by_token)(cast.viewer)
    watch = socket(f"/ws/runs/{run.pk}/?since=0", ORIGIN, header)
    assert await watch.connect()
    assert await watch.receive_more_than_pings() == {"type": "refetch", "from": 0, "cursor": 1, "steps": [1, 20_001]}
    await watch.leave()


async def test_a_run_that_is_not_there_is_not_found(cast: Cast) -> None:
    header = await database_sync_to_async(by_token)(cast.viewer)
    watch = socket("/ws/runs/nothing/", ORIGIN, header)
    await watch.connect()
    assert await watch.closing_code() == 4404


@pytest.mark.parametrize("path", ["/ws/runs/{}/", "/ws/overview/"])
@pytest.mark.parametrize(
    "header", [None, (b"authorization", b"Bearer ty_wrong"), (b"cookie", f"{NAME}=wrong".encode())]
)
async def test_strangers_are_told_to_sign_in(run: Run, path: str, header: tuple[bytes, bytes] | None) -> None:
    watch = socket(path.format(run.pk), ORIGIN, *([header] if header else []))
    await watch.connect()
    assert await watch.closing_code() == 4401


@pytest.mark.parametrize("origin", [None, b"http://evil.example", b"http://127.0.0.1:9999"])
async def test_pages_of_other_sites_get_no_socket(cast: Cast, run: Run, origin: bytes | None) -> None:
    header, _ = await database_sync_to_async(by_session)(cast.viewer)
    watch = socket(f"/ws/runs/{run.pk}/", header, *([(b"origin", origin)] if origin else []))
    assert not await watch.connect()


async def test_a_role_that_is_revoked_closes_the_socket(cast: Cast, run: Run) -> None:
    header = await database_sync_to_async(by_token)(cast.viewer)
    watch = socket(f"/ws/runs/{run.pk}/", ORIGIN, header)
    assert await watch.connect()
    await Membership.objects.filter(user=cast.viewer).adelete()
    assert await watch.closing_code() == 4404


async def test_signing_out_closes_the_socket(cast: Cast, run: Run) -> None:
    header, client = await database_sync_to_async(by_session)(cast.viewer)
    watch = socket(f"/ws/runs/{run.pk}/", ORIGIN, header)
    assert await watch.connect()
    await database_sync_to_async(client.logout)()
    assert await watch.closing_code() == 4401


async def test_what_a_client_says_is_ignored_and_a_flood_ends_it(cast: Cast, run: Run) -> None:
    header = await database_sync_to_async(by_token)(cast.viewer)
    watch = socket("/ws/overview/", ORIGIN, header)
    assert await watch.connect()
    await watch.send(text="{")
    await watch.send(data=b"\xff")
    assert await watch.receive() == {"type": "ping", "cursor": 0}
    for _ in range(MAX_FRAMES):
        await watch.send(text="x")
    assert await watch.closing_code() == 4408


async def test_the_overview_tells_of_the_runs_that_one_may_see(cast: Cast, run: Run) -> None:
    insider = socket("/ws/overview/", ORIGIN, await database_sync_to_async(by_token)(cast.viewer))
    outsider = socket("/ws/overview/", ORIGIN, await database_sync_to_async(by_token)(cast.outsider))
    for watch in (insider, outsider):
        assert await watch.connect()
        assert (await watch.receive())["type"] == "ping"  # from now on it receives everything
    await database_sync_to_async(broadcast.run_changed)(run.pk)
    assert await insider.receive_more_than_pings() == {"type": "run", "run": run.pk}
    await database_sync_to_async(broadcast.nodes_changed)()
    assert await insider.receive_more_than_pings() == {"type": "nodes"}
    assert await outsider.receive_more_than_pings() == {"type": "nodes"}
    await database_sync_to_async(make_dataset)(cast)  # of which others learn that there is something, and not what
    assert await insider.receive_more_than_pings() == {"type": "datasets"}
    assert await outsider.receive_more_than_pings() == {"type": "datasets"}
    await asyncio.gather(insider.leave(), outsider.leave())


async def test_a_socket_that_cannot_check_who_watches_is_closed(
    cast: Cast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = await database_sync_to_async(by_token)(cast.viewer)
    watch = socket(f"/ws/runs/{run.pk}/", ORIGIN, header)
    assert await watch.connect()
    assert (await watch.receive())["type"] == "ping"  # it was admitted

    def fail(questions: object) -> None:
        raise RuntimeError("nobody expected this")

    monkeypatch.setattr(door, "answers", fail)
    assert await watch.closing_code() == UNAVAILABLE
    late = socket(f"/ws/runs/{run.pk}/", ORIGIN, header)
    assert await late.connect()
    assert await late.closing_code() == UNAVAILABLE
