"""How large it gets: 500 nodes of 8 GPUs, 10,000 series at a point a second, 5,000 sockets over two webs, in steps.

All processes are those of `trainyard serve`, with PostgreSQL and Valkey. Nodes are documents
(benchmarks/load/fleet.py): nothing trains. Steps add to each other, and each is measured once what it adds is there. A
step's figures are compared with limits; the last row says which was passed first. Who asks runs on the same machine,
and its share of the processor is told apart.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import cycle, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from benchmarks import goals
from benchmarks.load.fleet import PlannedNode
from benchmarks.load.flow import program
from benchmarks.load.usage import Usage
from benchmarks.metrics_stack import OURS, ROOT, wait_for_line
from benchmarks.server_cases.bench_sockets import people
from benchmarks.stack import free_port, percentile
from benchmarks.table import Goal, Row, scaled

if TYPE_CHECKING:
    import redis

    from runs.models import Cluster, Project, Run, User

NUM_NODES, GPUS, NUM_RUNS, SERIES, NUM_SOCKETS, NUM_PEOPLE = 500, 8, 100, 100, 5_000, 100
SHARES = (0.1, 0.3, 1.0)
NUM_WEBS = 2
SETTLE_S, MEASURE_S = 10.0, 30.0
PAGES_HZ = 2.0
READY_S = 300.0
LOOK_S = 0.02  # at control's lock and clock
SERVER = ("web-0", "web-1", "control", "ingest", "PostgreSQL", "Valkey")
TICK_LOCK, TICK_KEY = "trainyard:control:lock", "trainyard:control:tick"


@dataclass
class Place:
    """The whole server of this benchmark, and who asks it."""

    home: Path
    socket: Path
    redis: redis.Redis
    ports: list[int]
    roots: dict[str, list[int]]
    cookies: dict[str, str] = field(default_factory=dict)


@dataclass
class Found:
    """What one step had (``share`` of everything), and what was measured in it."""

    share: float
    num_nodes: int = 0
    num_series: int = 0
    num_sockets: int = 0
    num_open: int = 0  # of the sockets
    num_closed: int = 0
    lag_s: list[float] = field(default_factory=list)  # age of the oldest entry of the stream, by look
    page_s: list[float] = field(default_factory=list)
    pages_failed: int = 0
    delivery_s: list[float] = field(default_factory=list)  # age of a point when a socket has it
    tick_s: float = 0.0  # mean
    between_ticks_s: float = 0.0  # longest
    sent: float = 1.0  # documents that a node sent in a second: below 1 where the fleet itself is late
    cores: dict[str, float] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0


def rows() -> list[Row]:
    from tests.servers import Valkey, short_folder, start_postgresql

    with ExitStack() as stack:
        folder = stack.enter_context(short_folder("ty-scale-"))
        database = start_postgresql(folder, is_durable=True)
        if database is None:
            return [Row("scale", None, "s", None, "", note="PostgreSQL's programs are not on this machine")]
        stack.callback(database.stop)
        valkey = Valkey(folder / "valkey", durable=True)
        valkey.start()
        stack.callback(valkey.stop)
        assert database.process is not None and valkey.process is not None
        roots = {"PostgreSQL": [database.process.pid], "Valkey": [valkey.process.pid]}
        place = stack.enter_context(served(folder, database.url, valkey.url, roots))
        steps = stack.enter_context(growing(place))
        found = []
        for share in SHARES:
            found.append(steps.measured(share))
            tell(found[-1])
    return [*(row for one in found for row in rows_of(one)), first_broken(found), *costs(found)]


@contextmanager
def served(folder: Path, database: str, valkey: str, roots: dict[str, list[int]]) -> Iterator[Place]:
    """Start the server's processes, and set Django up in this one, which makes rows."""
    import redis as redis_client

    for name in list(os.environ):
        if name.startswith(OURS):
            del os.environ[name]
    ports = [free_port() for _ in range(NUM_WEBS)]
    home = folder / "home"
    home.mkdir(mode=0o700)
    os.environ.update(TRAINYARD_HOME=str(home), DATABASE_URL=database, REDIS_URL=valkey, SECRET_KEY=secrets.token_hex(),
                      PUBLIC_URL=f"http://127.0.0.1:{ports[0]}")  # fmt: skip
    subprocess.run([sys.executable, "-m", "dashboard.serve", "migrate"], cwd=ROOT, check=True, stdout=sys.stderr)
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        with (folder / "server.log").open("ab") as log:
            for name, *words in (("control", "control"), ("ingest", "ingest"), ("web-0", "web"), ("web-1", "web")):
                port = {"PORT": str(ports[int(name[-1])])} if words == ["web"] else {}
                processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "dashboard.serve", *words], cwd=ROOT, stdout=log, stderr=log,
                    env={**os.environ, **port},
                )  # fmt: skip
        roots |= {name: [one.pid] for name, one in processes.items()} | {"rows and looks": [os.getpid()]}
        client = redis_client.Redis.from_url(valkey)
        place = Place(home, folder / "valkey" / "valkey.sock", client, ports, roots)
        place.cookies = signed_in(ports)
        yield place
    finally:
        for one in processes.values():
            one.terminate()
        for one in processes.values():
            one.wait(timeout=60)
        print((folder / "server.log").read_text()[-3000:], file=sys.stderr)


def signed_in(ports: list[int]) -> dict[str, str]:
    """Wait until all webs and the rest are ready, and return the cookies of an administrator's browser."""
    deadline = time.monotonic() + READY_S
    for port in ports:
        while True:
            try:
                if httpx.get(f"http://127.0.0.1:{port}/api/v1/health", timeout=30).status_code == 200:
                    break
            except httpx.TransportError:
                pass
            assert time.monotonic() < deadline, "the server did not become ready"
            time.sleep(0.2)
    words = [sys.executable, "-m", "dashboard.sign_in"]
    link = subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    with httpx.Client(follow_redirects=True, timeout=60) as browser:
        browser.get(link).raise_for_status()
        return {one.name: str(one.value) for one in browser.cookies.jar}


@contextmanager
def growing(place: Place) -> Iterator[Steps]:
    from dashboard.up.database import owner, set_up_django

    set_up_django()
    from runs.models import Cluster, Project

    with ExitStack() as stack:
        cluster, _ = Cluster.objects.get_or_create(name="local")
        project = Project.objects.get(name="default")
        tokens = people(scaled(NUM_PEOPLE, 2))
        yield Steps(place, stack, owner(), cluster, project, tokens)


class Steps:
    """What is there so far; ``measured`` adds up to a share of everything, and measures."""

    def __init__(
        self, place: Place, stack: ExitStack, owner: User, cluster: Cluster, project: Project, tokens: list[str]
    ) -> None:
        self.place, self._stack, self._owner, self._cluster, self._project = place, stack, owner, cluster, project
        self._tokens = tokens
        self.runs: list[Run] = []
        self.fleets: list[subprocess.Popen[str]] = []
        self.listeners: list[subprocess.Popen[str]] = []
        self.num_nodes = self.num_sockets = self.num_open = 0

    def measured(self, share: float) -> Found:
        began = time.monotonic()
        num_runs = scaled(round(NUM_RUNS * share), 2) - len(self.runs)
        self._add_fleet(num_runs, scaled(round(NUM_NODES * share), 4) - self.num_nodes)
        self._add_sockets(scaled(round(NUM_SOCKETS * share), 10) - self.num_sockets)
        time.sleep(SETTLE_S)
        found = Found(share, self.num_nodes, len(self.runs) * SERIES, self.num_sockets, self.num_open)
        pids = {"fleet": [one.pid for one in self.fleets], "listeners": [one.pid for one in self.listeners]}
        with Usage(self.place.roots | pids) as usage:
            for one in self.listeners:
                look(one)
            usage.reset()
            watch(self.place, found, self.runs, MEASURE_S)
            found.cores = usage.cores()
            for one in self.listeners:
                seen = look(one)
                found.delivery_s += seen["lags"]
                found.num_closed += seen["closed"]
            found.memory = usage.memory()
        found.seconds = time.monotonic() - began
        return found

    def _add_fleet(self, num_runs: int, num_nodes: int) -> None:
        """Make rows of nodes and of runs that are spread over them, and have them report."""
        first, place = self.num_nodes, self.place
        planned = new_nodes(self._owner, self._cluster, self._project, first, num_nodes, num_runs, self.runs)
        path = place.home.parent / f"fleet-{first}.json"
        path.write_text(json.dumps({"socket": str(place.socket), "nodes": [asdict(one) for one in planned]}))
        process = self._stack.enter_context(program("fleet", str(path)))
        wait_for_line(process, "ready")
        self.fleets.append(process)
        self.num_nodes += num_nodes

    def _add_sockets(self, count: int) -> None:
        """Open so many more, half of them at each web, spread over all runs."""
        place, first, opening = self.place, self.num_sockets, []
        for number, port in enumerate(place.ports):
            mine = range(first + number, first + count, NUM_WEBS)
            sockets = [
                (f"/ws/runs/{self.runs[each // NUM_WEBS % len(self.runs)].pk}/", self._tokens[each % len(self._tokens)])
                for each in mine
            ]
            path = place.home.parent / f"lags-{first}-{number}.json"
            path.write_text(json.dumps({"host": "127.0.0.1", "port": port, "sockets": sockets}))
            opening.append(self._stack.enter_context(program("lags", str(path))))
        for process in opening:
            words = wait_for_line(process, "ready").split()
            self.num_open += int(words[1])
        self.listeners += opening
        self.num_sockets += count


def new_nodes(
    owner: User, cluster: Cluster, project: Project, first: int, num_nodes: int, num_runs: int, runs: list[Run]
) -> list[PlannedNode]:
    """Write rows of nodes, and of running runs with an attempt over an equal part of them each."""
    from django.utils import timezone

    from runs.models import Attempt, HeldSlot, Node, Placement, Run
    from runs.values.status import Phase, Status
    from trainyard.contract.seals import new_key

    now, planned = timezone.now(), list[PlannedNode]()
    nodes = Node.objects.bulk_create(
        Node(cluster=cluster, name=f"gpu-{first + number:04}", key=new_key(), address="10.0.0.1", slots=GPUS)
        for number in range(num_nodes)
    )
    for place in range(num_runs):
        mine = nodes[place * num_nodes // num_runs : (place + 1) * num_nodes // num_runs]
        resources = {"nodes": len(mine), "processes_per_node": GPUS}
        name = f"train-{len(runs):03}"
        spec = {"name": name, "resources": resources, "task": {"script": "train.py"}}
        run = Run.objects.create(
            project=project, cluster=cluster, name=name, spec=spec, created_by=owner, status=Status.RUNNING,
            started_at=now, num_nodes=len(mine),
        )  # fmt: skip
        fence, size = run.next_fence(), len(mine) * GPUS
        go = {"master_addr": "10.0.0.1", "master_port": 29500}
        attempt = Attempt.objects.create(run=run, number=fence, fence=fence, world_size=size, go=go, go_at=now)
        for rank, node in enumerate(mine):
            part = Placement.objects.create(
                attempt=attempt, node=node, node_rank=rank, first_rank=rank * GPUS, num_ranks=GPUS, phase=Phase.RUNNING
            )
            HeldSlot.objects.bulk_create(HeldSlot(node=node, index=index, placement=part) for index in range(GPUS))
            planned.append(
                PlannedNode(node.pk, node.name, node.key, run.pk, attempt.pk, fence, rank * GPUS, GPUS,
                            SERIES if rank == 0 else 0)
            )  # fmt: skip
        runs.append(run)
    return planned


def look(listener: subprocess.Popen[str]) -> dict[str, Any]:
    assert listener.stdin is not None
    listener.stdin.write("look\n")
    listener.stdin.flush()
    found: dict[str, Any] = json.loads(wait_for_line(listener, "found").removeprefix("found "))
    return found


def watch(place: Place, found: Found, runs: list[Run], seconds: float) -> None:
    """Look at the stream and at control's clock, and open pages, for so long."""
    over = threading.Event()
    browser = threading.Thread(target=browse, args=(place, found, runs, over))
    browser.start()
    ends: list[float] = []
    num_looks = num_held = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(LOOK_S)
        pipe: Any = place.redis.pipeline(transaction=False)
        pipe.exists(TICK_LOCK).get(TICK_KEY)
        is_held, ended = pipe.execute()
        num_looks, num_held = num_looks + 1, num_held + is_held
        if ended is not None and (not ends or float(ended) != ends[-1]):
            ends.append(float(ended))
        if num_looks % 10 == 0:
            oldest: Any = place.redis.xrange("trainyard:stream:0", count=1)
            found.lag_s.append(max(0.0, time.time() - int(oldest[0][0].split(b"-")[0]) / 1000) if oldest else 0.0)
    over.set()
    browser.join()
    found.tick_s = num_held / num_looks * seconds / max(1, len(ends) - 1)
    gaps = [after - before for before, after in pairwise(ends)]
    found.between_ticks_s = max(gaps, default=seconds)


def browse(place: Place, found: Found, runs: list[Run], over: threading.Event) -> None:
    paths = cycle(("/", "/runs/", f"/runs/{runs[0].pk}/", "/nodes/", "/jobs/", "/api/v1/runs?limit=50"))
    with httpx.Client(cookies=place.cookies, timeout=30) as browser:
        for port in cycle(place.ports):
            began = time.monotonic()
            try:
                answer = browser.get(f"http://127.0.0.1:{port}{next(paths)}")
                if answer.status_code != 200:
                    found.pages_failed += 1
                    print(f"{answer.url}: {answer.status_code}", file=sys.stderr)
            except httpx.TransportError:
                found.pages_failed += 1
            found.page_s.append(time.monotonic() - began)
            if over.wait(max(0.0, 1 / PAGES_HZ - (time.monotonic() - began))):
                return


# What it says.


def limits_of(one: Found) -> list[tuple[str, float, Goal]]:
    """Return (what, figure, limit) of the step; its sockets are in number."""
    return [
        ("ingest lag, p95", percentile(one.lag_s, 0.95), goals.SCALE_LAG),
        ("page or REST, p95", percentile(one.page_s, 0.95), goals.SCALE_PAGE),
        ("tick of control, mean", one.tick_s, goals.SCALE_TICK),
        ("point to socket, p95", percentile(one.delivery_s or [0.0], 0.95), goals.SCALE_DELIVERY),
    ]


def title(one: Found) -> str:
    return f"{one.num_nodes:,} nodes, {one.num_series:,} series, {one.num_sockets:,} sockets"


def rows_of(one: Found) -> list[Row]:
    notes = {
        "ingest lag, p95": f"longest {max(one.lag_s):.1f} s; {processes(one)}",
        "page or REST, p95": f"median {1e3 * percentile(one.page_s, 0.5):,.0f} ms of {len(one.page_s)}, "
        f"{one.pages_failed} failed; MiB: {told(one.memory, SERVER, 0)}",
        "tick of control, mean": f"longest from one end to the next {one.between_ticks_s:.1f} s",
        "point to socket, p95": f"median {1e3 * percentile(one.delivery_s or [0.0], 0.5):,.0f} ms of "
        f"{len(one.delivery_s):,}; {one.num_open:,} sockets opened, {one.num_closed} closed",
    }
    return [
        Row(f"{title(one)}: {what}", figure, "s", None, "", goal=goal, note=notes[what])
        for what, figure, goal in limits_of(one)
    ]


def processes(one: Found) -> str:
    server, all_cores = sum(one.cores.get(name, 0.0) for name in SERVER), os.cpu_count()
    asking = sum(value for name, value in one.cores.items() if name not in SERVER)
    return f"cores: {told(one.cores, SERVER, 2)}; server {server:.2f}, who asks {asking:.2f}, of {all_cores}"


def told(values: dict[str, float], names: tuple[str, ...], digits: int) -> str:
    return ", ".join(f"{name} {values.get(name, 0.0):.{digits}f}" for name in names)


def first_broken(found: list[Found]) -> Row:
    """Say which limit was passed first, and where."""
    for one in found:
        over = [(figure / goal.bound, what) for what, figure, goal in limits_of(one) if figure > goal.bound]
        if one.num_open < one.num_sockets or one.num_closed:
            over.append((99.0, f"{one.num_sockets - one.num_open} sockets did not open, {one.num_closed} closed"))
        if over:
            note = f"{max(over)[1]}; load average {os.getloadavg()[0]:.0f}, {busy(one)}"
            return Row("first step beyond a limit", 100 * one.share, "% of all", None, "", note=note)
    return Row("first step beyond a limit", None, "% of all", None, "", note="none was passed")


def busy(one: Found) -> str:
    top = max(one.cores.items(), key=lambda item: item[1])
    return f"most of the processor went to {top[0]} ({top[1]:.2f} of {os.cpu_count()} cores)"


def costs(found: list[Found]) -> list[Row]:
    """What a node, a thousand series and a thousand deliveries cost, between the first step and the second."""
    low, high = found[0], found[1]

    def more(*names: str) -> float:
        return sum(high.cores.get(name, 0.0) - low.cores.get(name, 0.0) for name in names)

    deliveries = (len(high.delivery_s) - len(low.delivery_s)) / MEASURE_S
    memory = sum(high.memory[name] - low.memory[name] for name in ("web-0", "web-1"))
    per_node = 100 * more("control") / (high.num_nodes - low.num_nodes)
    per_series = 100 * more("ingest") / (high.num_series - low.num_series) * 1000
    sockets = high.num_sockets - low.num_sockets
    return [
        Row("control, for 100 nodes", 100 * per_node, "% of a core", None, "", note="step 2 less step 1"),
        Row("ingest, for 1,000 series at 1 Hz, with what nodes send", per_series, "% of a core", None, ""),
        Row("webs, for 1,000 deliveries a second of 100 series each",
            1e5 * more("web-0", "web-1") / max(1.0, deliveries), "% of a core", None, ""),
        Row("webs, for a socket", memory * 1024 / sockets, "KiB", None, ""),
    ]  # fmt: skip


def tell(one: Found) -> None:
    print(f"{title(one)}: {one.seconds:.0f} s, {processes(one)}", file=sys.stderr)
    print(f"  {json.dumps({name: round(value, 2) for name, value in one.cores.items()})}", file=sys.stderr)
    print(f"  MiB {json.dumps({name: round(value) for name, value in one.memory.items()})}", file=sys.stderr)
    print(f"  {[(what, round(figure, 3)) for what, figure, _ in limits_of(one)]}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    from benchmarks.__main__ import main

    sys.exit(main([re.sub("^bench_", "", Path(__file__).stem)]))
