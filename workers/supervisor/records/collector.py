"""Records of the supervisor itself: the lines that its ranks print, and samples of the machine."""

import struct
import threading
import time
from pathlib import Path

import psutil
import structlog

from trainyard.contract.orders import Order
from trainyard.contract.records import Begin, Group, LossCounts, Lost, Points
from trainyard.spec.sections.environment import environment_of
from trainyard.spooling.writer import SpoolLimit, SpoolWriter
from workers.attempt.folder import AttemptFolder
from workers.machine.gpus import gpus_of
from workers.machine.health import GpuReader
from workers.machine.processes import descendants_of, identify
from workers.supervisor.ranks.state import RankState
from workers.supervisor.records.event_files import EventFiles
from workers.supervisor.records.folder_watch import FolderWatch
from workers.supervisor.records.log_tail import ROOM_WAIT_S, LogTail
from workers.supervisor.records.rule_watch import RuleWatch

log = structlog.get_logger(__name__)

GATHER_S = 0.05  # after lines were read: what is printed meanwhile is read together
SAMPLE_EVERY_S = 2.0

Point = tuple[str, dict[str, str], float]


class Collector(threading.Thread):
    """Tails stdout and stderr of the ranks and samples the machine, into a spool of the supervisor's own.

    Its loop touches no network. ``finish`` drains what is left and writes the end frame.
    """

    def __init__(
        self,
        order: Order,
        folder: AttemptFolder,
        ranks: list[RankState],
        ancestors: list[int],
        rules: RuleWatch | None = None,
    ) -> None:
        super().__init__(name="collector", daemon=True)
        self._node = order.node_name
        self._folder = folder
        self._ranks = ranks
        self._ancestors = ancestors  # pids of reaper and supervisor, recorded with the ranks' descendants
        self._gpus = GpuReader(gpus_of(order.slots) if order.accelerator == "gpu" else [])
        self._writer: SpoolWriter | None = None
        self._tails = [
            LogTail(folder.stream_path(rank, stream), rank, stream, rules=rules)
            for rank in range(order.first_rank, order.first_rank + order.num_ranks)
            for stream in ("stdout", "stderr")
        ]
        if environment_of(order.spec) is not None:  # what is built for all ranks here is in the log of the first
            self._tails.insert(0, LogTail(folder.stream_path(order.first_rank, "build"), order.first_rank, "build"))
        self._began_at = time.time()
        self._recorded: set[int] = set()
        self._limit = SpoolLimit(folder.spool)
        self._num_refused = 0  # samples for which the spool had no room
        self._events = EventFiles(order, folder)
        self._watch = FolderWatch(folder.logs)
        self._over = threading.Event()

    def run(self) -> None:
        sample_at = time.monotonic()
        psutil.cpu_percent()  # the first answer is about nothing
        while not self._over.is_set():
            try:
                has_room = self._limit.has_room(self._spool.num_bytes)
                if has_room:  # else the lines stay in their files meanwhile
                    self._read_logs()
                if time.monotonic() >= sample_at:
                    sample_at = time.monotonic() + SAMPLE_EVERY_S
                    self._sample(has_room=has_room)
                    self._record_descendants()
                    if has_room:
                        self._events.follow(self._spool)
            except OSError as error:  # a full disk: the lines stay in their files, and are tried again
                log.warning("collect.failed", error=str(error))
            except Exception:  # the ranks' lines are worth more than one sample that could not be taken
                log.exception("collect.bug")
            self._over.wait(GATHER_S)
            self._watch.wait(sample_at - time.monotonic())

    def finish(self) -> None:
        """Stop, take in what the ranks printed last, and end the spool."""
        self._over.set()
        self._watch.wake()
        self.join()
        self._watch.close()
        try:
            until = time.monotonic() + ROOM_WAIT_S
            for tail in self._tails:
                tail.drain(self._spool, self._limit, until=until)
            if self._limit.has_room(self._spool.num_bytes):
                self._events.finish(self._spool)
            self._report_refused()
            self._spool.close("exit")
        except OSError as error:
            log.error("collect.lost", error=str(error))

    @property
    def _spool(self) -> SpoolWriter:
        """Made when it is needed: on a disk that is full there may be none for some time. Raises OSError."""
        if self._writer is None:
            self._writer = SpoolWriter(self._folder.spool, begin=Begin(node=self._node, role="supervisor"))
        return self._writer

    def _read_logs(self) -> None:
        for tail in self._tails:
            while tail.move(self._spool) and self._limit.has_room(self._spool.num_bytes):
                pass

    def _report_refused(self) -> None:
        if self._num_refused:
            self._spool.append(Lost(LossCounts(spool_limit=self._num_refused)))
            self._num_refused = 0

    def _sample(self, *, has_room: bool) -> None:
        node = {"node": self._node}
        points: list[Point] = [
            ("system/cpu_percent", node, psutil.cpu_percent()),
            ("system/memory_bytes", node, float(psutil.virtual_memory().used)),
        ]
        for gpu in self._gpus.read():
            labels = {**node, "gpu": str(gpu.index)}
            named = {
                "system/gpu_utilization": gpu.utilization_percent,
                "system/gpu_memory_bytes": gpu.memory_used_bytes,
                "system/gpu_temperature_c": gpu.temperature_c,
                "system/gpu_power_w": gpu.power_w,
            }
            points += [(name, labels, float(value)) for name, value in named.items() if value is not None]
        for rank in self._ranks:
            if rank.ended_at is None and (used := memory_of(rank.main_pid)) is not None:
                points.append(("system/rank_memory_bytes", {**node, "rank": str(rank.rank)}, used))
        if not has_room:
            self._num_refused += len(points)
            return
        self._report_refused()
        now = time.time()
        step, at = struct.pack("<q", int(now - self._began_at)), struct.pack("<d", now)
        groups = [Group(labels, (name,), step, at, struct.pack("<d", value)) for name, labels, value in points]
        self._spool.append(Points(groups))

    def _record_descendants(self) -> None:
        """Record which processes the node worker must find gone, should reaper and supervisor both be killed."""
        pids = {*self._ancestors}
        for rank in self._ranks:
            if rank.ended_at is None:
                pids |= {rank.main_pid, *descendants_of(rank.main_pid)}
        if pids != self._recorded:
            self._folder.record_processes([identify(pid) for pid in sorted(pids)])
            self._recorded = pids


def memory_of(pid: int) -> float | None:
    """Return the process's proportional share of memory: ranks share most pages with the process they came from."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return float(line.split()[1]) * 1024
        return float(psutil.Process(pid).memory_info().rss)
    except (OSError, psutil.Error):
        return None
