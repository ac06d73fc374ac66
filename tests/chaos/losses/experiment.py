"""One experiment: runs in a whole Trainyard, a reporter over REST for each, and faults at random moments."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import redis

from dashboard.home import socket_path
from tests.chaos.losses.exported import exported
from tests.chaos.losses.keeper import Keeper
from tests.chaos.losses.reporter import NAME as OVER_REST
from tests.chaos.losses.reporter import Reporter
from tests.points import Difference, Points, difference
from tests.servers import short_folder
from tests.up_process import ROOT, Up, new_home, wait_until
from tests.whole.runs import FINAL, Yard
from trainyard.bundle import pack
from trainyard.contract.seals import EPOCH_KEY

SCRIPT = Path(__file__).parent / "script.py"
SABOTAGE = Path(__file__).parent / "sabotage"
OVER_TWO_NODES = ((2,), (1, 1))  # the nodes of each run, one rank on each


class Experiment:
    """Call the faults in any order, then ``settle`` and ``compare``."""

    def __init__(self, up: Up, kept: Path, choice: random.Random, shape: tuple[int, ...]) -> None:
        self.up = up
        self.choice = choice
        self.yard = Yard(up)
        self.keeper = Keeper(up.home, kept)
        self.runs: list[str] = []
        self.reporters: list[Reporter] = []
        self._shape = shape

    def begin(self) -> None:
        """Launch the runs and wait until they log."""
        self.keeper.start()
        self.runs = [self._submit(num_nodes) for num_nodes in self._shape]
        self.reporters = [Reporter(self.up, run, random.Random(self.choice.random())) for run in self.runs]
        for reporter in self.reporters:
            reporter.start()
        for run in self.runs:
            self._wait_until_it_logs(run)

    def pause(self) -> None:
        time.sleep(0.1 + self.choice.random())

    # The faults.

    def kill_rank(self) -> None:
        self._kill_of_attempt(lambda report: self.choice.choice([rank["pid"] for rank in report["ranks"]]))

    def kill_supervisor(self) -> None:
        self._kill_of_attempt(lambda report: report["supervisor_pid"])

    def kill_ingest(self) -> None:
        self._kill("ingest")

    def kill_web(self) -> None:
        self._kill("web")

    def kill_valkey(self) -> None:
        self._kill("valkey")

    def wipe_valkey(self) -> None:
        """SIGKILL, and its successor finds no file. Supervisors go back to a watermark that is a little old."""
        before = self._epoch()
        log = self.up.home / "valkey" / "appendonlydir"
        log.rename(self.up.home / f"appendonlydir-{time.monotonic_ns()}")
        self._kill("valkey")
        wait_until(lambda: self._epoch() not in (None, before), "Valkey is back, empty", patience_s=30)

    def wipe_valkey_with_frames_in_it(self) -> None:
        """While ingest is away the stream holds what was sent and not stored."""
        os.kill(self.up.processes()["ingest"], signal.SIGKILL)
        time.sleep(0.3)
        self.wipe_valkey()

    def wipe_valkey_behind_control(self) -> None:
        """Supervisors go back behind all that was stored while control was paused, for it tells them what is. It goes
        on when one has gone back: heard in the same breath, a new watermark would leave nothing to send again."""
        control = self.up.processes()["control"]
        os.kill(control, signal.SIGSTOP)
        try:
            before = self._num_stored()
            wait_until(lambda: self._num_stored() > before + 1, "more is stored", patience_s=30)
            resent = self._num_resent()
            self.wipe_valkey()
            wait_until(lambda: self._num_resent() > resent, "a supervisor sends again", patience_s=30)
        finally:
            os.kill(control, signal.SIGCONT)

    # The end.

    def settle(self, patience_s: float = 90.0) -> bool:
        """End everything gracefully, and wait until the server has what it was promised. False when that never came."""
        self._have_second_attempts()
        time.sleep(0.5)
        for run in self.runs:
            self._ask(lambda run=run: self.yard.http.post(f"/runs/{run}/stop"))
        for reporter in self.reporters:
            reporter.stop()
        with contextlib.suppress(AssertionError):
            for run in self.runs:
                self.yard.wait_for_end(run, patience_s)
            self.keeper.stop()
            wait_until(self._is_all_there, "every watermark is at its producer's end", patience_s)
            return True
        self.keeper.stop()
        return False

    def compare(self) -> tuple[Difference, Difference]:
        """Return how the store differs from the spools, and from what REST answered 2xx."""
        stored = exported(self.yard, self.runs)
        promised = self.keeper.points()
        for reporter in self.reporters:
            promised |= reporter.points()
        is_rest: Callable[[Points, bool], Points] = lambda points, wanted: {  # noqa: E731
            key: counted for key, counted in points.items() if (key.name == OVER_REST) is wanted
        }
        spools, rest = (difference(is_rest(promised, way), is_rest(stored, way)) for way in (False, True))
        return spools, rest

    def num_attempts(self) -> int:
        return sum(len(self.yard.get(f"/runs/{run}/attempts")["items"]) for run in self.runs)

    def close(self) -> None:
        """Leave nothing behind, whatever went wrong."""
        for run in self.runs:
            with contextlib.suppress(httpx.HTTPError):
                self.yard.http.post(f"/runs/{run}/stop")
        for reporter in self.reporters:
            reporter.give_up()
        self.keeper.stop()
        self.yard.http.close()

    def keep_evidence(self) -> None:
        """Copy what tells why it failed to a folder that outlives it: logs, orders, reports, ledgers. Say where."""
        kept = ROOT / "test-results" / f"losses-{time.time_ns()}"
        wanted = ("logs/*.log", "processes.json", "nodes/*/attempts/*/*.json", "nodes/*/attempts/*/spool/ledger.json")
        for path in (path for pattern in (*wanted, "nodes/*/attempts/*/logs/*") for path in self.up.home.glob(pattern)):
            target = kept / path.relative_to(self.up.home)
            target.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(path, target)
        print(f"\n  what it left is in {kept}")

    def _submit(self, num_nodes: int) -> str:
        with short_folder("ty-code-") as folder:
            (folder / "script.py").write_text(SCRIPT.read_text())
            bundle = self.yard.http.post("/bundles", content=pack(folder)[0]).raise_for_status().json()
        task = {"script": SCRIPT.name, "arguments": [str(self.choice.random())], "code": {"sha256": bundle["sha256"]}}
        name = f"{num_nodes}-nodes"
        return self.yard.submit({"name": name, "resources": {"nodes": num_nodes, "accelerator": "cpu"}, "task": task})

    def _kill(self, name: str) -> None:
        """SIGKILL the process of that name and wait for its successor; one that is just being started is waited for."""
        wait_until(lambda: name in self.up.processes(), f"{name} runs", patience_s=20)
        pid = self.up.processes()[name]
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self.up.processes().get(name, pid) != pid, f"{name} is restarted", patience_s=20)

    def _kill_of_attempt(self, choose: Callable[[dict[str, Any]], int]) -> None:
        """SIGKILL a process of a run's newest attempt, once it logs, and wait for the next attempt, which follows by
        itself. A run that had ended is restarted first."""
        run = self.choice.choice(self.runs)
        self._revive(run)
        self._wait_until_it_logs(run)
        num_attempts = self._num_attempts_of(run)
        wait_until(lambda: self._has_killed(run, choose), "a process of the attempt is killed", patience_s=20)
        wait_until(lambda: self._num_attempts_of(run) > num_attempts or self._has_ended(run), "it carries on", 60)
        self._revive(run)

    def _num_attempts_of(self, run: str) -> int:
        return len(self.yard.get(f"/runs/{run}/attempts")["items"])

    def _has_ended(self, run: str) -> bool:
        return self.yard.run(run)["status"] in FINAL

    def _has_killed(self, run: str, choose: Callable[[dict[str, Any]], int]) -> bool:
        """Whether there was such a process; a report may be a little older than the end of what it names."""
        reports = [report for report in self._reports(run) if report["phase"] == "running"]
        with contextlib.suppress(ProcessLookupError):
            if reports:
                os.kill(choose(self.choice.choice(reports)), signal.SIGKILL)
                return True
        return False

    def _have_second_attempts(self) -> None:
        for run in self.runs:
            self._revive(run)
            self._wait_until_it_logs(run)

    def _revive(self, run: str) -> None:
        """Restart the run if it has ended. A restart whose answer was lost is refused the second time."""
        if self.yard.run(run)["status"] in FINAL:
            answer = self._ask(lambda: self.yard.http.post(f"/runs/{run}/restart"))
            assert answer.status_code in (200, 409), answer.text

    def _wait_until_it_logs(self, run: str) -> None:
        def logs() -> bool:
            document = self.yard.run(run)
            assert document["status"] not in FINAL, document["reason"]
            reports = [report for report in self._reports(run) if report["phase"] == "running"]
            return len(reports) == len(self._reports(run)) > 0 and all(self._has_spooled(report) for report in reports)

        wait_until(logs, f"{run} logs", patience_s=60)

    def _reports(self, run: str) -> list[dict[str, Any]]:
        """What the nodes say of the run's newest attempt."""
        found: list[dict[str, Any]] = []
        for path in self.up.home.glob("nodes/*/attempts/*/report.json"):
            with contextlib.suppress(FileNotFoundError):
                report = json.loads(path.read_text())
                if report["run"] == run:
                    found.append({**report, "folder": path.parent})
        newest = max((report["fence"] for report in found), default=0)
        return [report for report in found if report["fence"] == newest]

    def _has_spooled(self, report: dict[str, Any]) -> bool:
        """The rank and its child, a while each."""
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile: it had spooled a good deal
            sizes = [path.stat().st_size for path in report["folder"].glob("spool/*.spool")]
            return sum(size > 5_000 for size in sizes) >= 2
        return True

    def _epoch(self) -> bytes | None:
        with contextlib.suppress(redis.RedisError), redis.Redis(unix_socket_path=str(socket_path(self.up.home))) as one:
            found: bytes | None = one.get(EPOCH_KEY)
            return found
        return None

    def _num_stored(self) -> int:
        """How many frames of the ranks' spools the server has stored."""
        with contextlib.closing(sqlite3.connect(self.up.home / "metrics.sqlite3", timeout=30)) as metrics:
            of_ranks = "SELECT COALESCE(SUM(watermark), 0) FROM metrics_producer WHERE role = 'rank'"
            return int(metrics.execute(of_ranks).fetchone()[0])

    def _num_resent(self) -> int:
        """How often supervisors said that they send something again."""
        logs = self.up.home.glob("nodes/*/attempts/*/logs/supervisor.log")
        return sum(path.read_text().count("spool.resend") for path in logs)

    def _is_all_there(self) -> bool:
        """Whether the server's watermarks are at the last whole frame of every producer."""
        with contextlib.closing(sqlite3.connect(self.up.home / "metrics.sqlite3", timeout=30)) as metrics:
            known = dict(metrics.execute("SELECT producer, watermark FROM metrics_producer"))
        written = self.keeper.producers()
        return all(known.get(name, 0) >= last for run in self.runs for name, last in written[run].items())

    def _ask(self, question: Callable[[], httpx.Response]) -> httpx.Response:
        """Ask again while the web process is being restarted."""
        deadline = time.monotonic() + 30
        while True:
            try:
                answer = question()
                if not answer.is_server_error:
                    return answer
            except httpx.TransportError:
                pass
            assert time.monotonic() < deadline, "the site did not come back"
            time.sleep(0.1)


@contextlib.contextmanager
def experiment(up: Up, choice: random.Random, shape: tuple[int, ...] = ()) -> Iterator[Experiment]:
    """Runs of that shape, by default any that fits two nodes with one slot each."""
    with short_folder("ty-kept-") as kept:
        one = Experiment(up, kept, choice, shape or choice.choice(OVER_TWO_NODES))
        try:
            one.begin()
            yield one
        except BaseException:
            one.keep_evidence()
            raise
        finally:
            one.close()


@contextlib.contextmanager
def sabotaged(sabotage: str, choice: random.Random) -> Iterator[Experiment]:
    """A run on one node of a Trainyard in which something does not work: see sabotage/sitecustomize.py."""
    with short_folder("ty-sabotaged-") as folder:
        up = Up(new_home(folder), NODES="1", CHAOS_SABOTAGE=sabotage, PYTHONPATH=str(SABOTAGE))
        try:
            up.wait_until_said("Nodes in contact")
            with experiment(up, choice, shape=(1,)) as one:
                yield one
        finally:
            up.close()
