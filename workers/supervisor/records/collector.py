"""Records of the supervisor itself: the lines that its ranks print, and samples of the machine."""

import os
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path, PurePosixPath

import psutil
import structlog

from trainyard.contract.orders import Order
from trainyard.contract.records import AnyRecord, BadRecord, Begin, Group, LossCounts, Lost, Media, Points
from trainyard.doors.gathering import Gathering
from trainyard.doors.tensorboard.event_files import FILE, pieces, written_at
from trainyard.doors.tensorboard.events import Translator
from trainyard.sdk.buffers import Labels
from trainyard.spec.sections.environment import environment_of
from trainyard.spooling.frames import decode
from trainyard.spooling.held_folder import HeldFolder
from trainyard.spooling.reader import READ_BYTES, SpoolReader
from trainyard.spooling.writer import SpoolLimit, SpoolWriter, spool_files
from workers.attempt.folder import AttemptFolder
from workers.machine.gpus import gpus_of
from workers.machine.processes import cpu_s, descendants_of, identify
from workers.supervisor.ranks.state import RankState
from workers.supervisor.records.log_tail import ROOM_WAIT_S, FolderWatch, LogTail
from workers.supervisor.records.rule_watch import RuleWatch

# Event files of TensorBoard that ranks write while they train, as records of the run: no line of the script changes.
#
# What a rank logs by the SDK under the same name counts, and that of the event files is left out. So numbers wait one
# round before they go on: by then the spools name what the SDK logged at the same time.

LEFT_OUT = frozenset({"__pycache__", ".git", ".venv", ".trainyard", "trainyard-spool"})
ROUND_BYTES = 8 * 1024 * 1024  # that are read of all files at once: lines of logs wait meanwhile
LOOK_SHARE = 20  # a folder that takes long to look through is looked through that much more rarely
MAX_FILES = 1_000

File = tuple[Path, str]  # the folder of the attempt, and the name below it


class EventFiles:
    """Follows the event files that appear in the working and the output folder. For one thread at a time."""

    def __init__(self, order: Order, folder: AttemptFolder) -> None:
        self._roots = (folder.code, folder.output)
        self._node: Labels = () if order.first_rank == 0 else (("node", order.node_name),)
        self._gathering = Gathering()
        self._followed: dict[File, FollowedFile] = {}
        self._spools = LoggedNames(folder.spool)
        self._base: File | None = None
        self._look_at = float("-inf")
        self._old = set(self._found())  # what came with the code, or from an earlier attempt

    def follow(self, spool: SpoolWriter) -> None:
        """Write what was read a round ago, and read on. Raises OSError where the spool cannot be written."""
        self._write(spool)
        self._look()
        self._read(ROUND_BYTES)

    def finish(self, spool: SpoolWriter) -> None:
        """Read and write all that is left. Nobody writes the files any more. Raises OSError."""
        self._look_at = float("-inf")
        self._look()
        while self._read(ROUND_BYTES):
            self._write(spool)
        self._write(spool)
        for why, count in self._gathering.refused.items():
            log.warning("events.refused", why=why, count=count)

    def _look(self) -> None:
        began = time.monotonic()
        if began < self._look_at:
            return
        for file in sorted(self._found() - self._old - self._followed.keys(), key=_age):
            self._base = self._base or file
            if len(self._followed) < MAX_FILES:
                self._followed[file] = FollowedFile(*file, self._gathering, self._labels(file))
        now = time.monotonic()
        self._look_at = now + LOOK_SHARE * (now - began)

    def _labels(self, file: File) -> Labels:
        """Return the labels of a file's series: none for the folder of the first file, its name for another."""
        assert self._base is not None
        (root, name), (base_root, base) = file, self._base
        place, above = PurePosixPath(name).parent, PurePosixPath(base).parent
        if root == base_root and place.is_relative_to(above):
            place = place.relative_to(above)
        labels = dict(self._node) if str(place) == "." else {**dict(self._node), "folder": str(place)}
        return tuple(sorted(labels.items()))

    def _found(self) -> set[File]:
        found = set()
        for root in self._roots:
            with suppress(OSError), HeldFolder.open(root) as held:
                names = (name for name, _ in held.walk(without=LEFT_OUT))
                found |= {(root, name) for name in names if FILE.fullmatch(name.rpartition("/")[2])}
        return found

    def _read(self, room_bytes: int) -> int:
        """Read so much of all files, and return how many bytes that were."""
        taken = 0
        for file in self._followed.values():
            if taken < room_bytes:
                taken += file.read(room_bytes - taken)
        return taken

    def _write(self, spool: SpoolWriter) -> None:
        records = list(self._gathering.take())
        if not records:
            return
        self._spools.read(without=spool.producer)
        for record in records:
            if (kept := without_names(record, self._spools.names)) is not None:
                spool.append(kept)


class FollowedFile:
    def __init__(self, root: Path, name: str, gathering: Gathering, labels: Labels) -> None:
        self._root, self._name = root, name
        self._gathering = gathering
        self._translator = Translator(gathering, labels)
        self._offset = 0
        self._is_over = False

    def read(self, room_bytes: int) -> int:
        """Read on, and return how many bytes that were."""
        if self._is_over:
            return 0
        begin = self._offset
        try:
            with HeldFolder.open(self._root) as held, held.open_file(self._name) as file:
                end = min(os.fstat(file.fileno()).st_size, begin + room_bytes)
                for piece in pieces(file, end, begin, self._translator.take_packed):
                    self._translator.take(piece.bodies)
                    self._offset = piece.end
                    self._is_over = piece.is_broken
                    for damage in piece.damages:
                        self._gathering.refuse(self._name, f"the record at byte {damage.offset:,}: {damage.why}")
        except OSError as error:  # deleted, or no plain file any more: what was read stays
            log.warning("events.unreadable", file=self._name, error=str(error))
            self._is_over = True
        return self._offset - begin


class LoggedNames:
    """Names that the SDK has logged, by the spools of the ranks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._readers: dict[str, SpoolReader] = {}
        self.names: set[str] = set()

    def read(self, without: str) -> None:
        """Learn what is new in all spools but that of one producer."""
        files = spool_files(self._folder)
        for producer in files.keys() - {without}:
            reader = self._readers.get(producer)
            if reader is None:
                reader = self._readers[producer] = SpoolReader(self._folder, producer, first_file=files[producer][0])
            with suppress(OSError):
                while found := reader.read(READ_BYTES, files[producer]):
                    for frame in found:
                        self._learn(frame.raw)

    def _learn(self, raw: bytes) -> None:
        with suppress(BadRecord, ValueError):  # a rank may write here, and anything
            record = decode(raw)[0].record()
            if isinstance(record, Points):
                self.names.update(name for group in record.groups for name in group.names)
            elif isinstance(record, Media):
                self.names.add(record.name)


def without_names(record: AnyRecord, names: set[str]) -> AnyRecord | None:
    """Return the record without the series and media of these names; None where nothing is left."""
    if isinstance(record, Points):
        groups = [group for group in record.groups if group.names[0] not in names]
        return Points(groups) if groups else None
    return None if isinstance(record, Media) and record.name in names else record


def _age(file: File) -> tuple[int, int, str]:
    return written_at(file[1]), file[1].count("/"), file[1]


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
        self._folder, self._ranks = folder, ranks
        self._ancestors = ancestors  # pids of reaper and supervisor, recorded with the ranks' descendants
        self._gpus = gpus_of(order.slots) if order.accelerator == "gpu" else []
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
        self._used: dict[int, tuple[float, dict[int, float]]] = {}  # by rank: when, and processor time by process
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
        for gpu in (one.health() for one in self._gpus):
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
            if not self._gpus and rank.ended_at is None and (share := self._cpu_percent(rank)) is not None:
                points.append(("system/rank_cpu_percent", {**node, "rank": str(rank.rank)}, share))
        if not has_room:
            self._num_refused += len(points)
            return
        self._report_refused()
        now = time.time()
        step, at = struct.pack("<q", int(now - self._began_at)), struct.pack("<d", now)
        groups = [Group(labels, (name,), step, at, struct.pack("<d", value)) for name, labels, value in points]
        self._spool.append(Points(groups))

    def _cpu_percent(self, rank: RankState) -> float | None:
        """Return what the rank and its descendants have used of one core since the last call; None at the first."""
        at, used = time.monotonic(), {pid: cpu_s(pid) for pid in (rank.main_pid, *descendants_of(rank.main_pid))}
        since, before = self._used.get(rank.rank, (at, used))
        self._used[rank.rank] = at, used
        more = sum(max(0.0, now - before.get(pid, 0.0)) for pid, now in used.items())
        return 100 * more / (at - since) if at > since else None

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
        found = psutil.Process(pid).memory_full_info()
    except psutil.Error:
        return None
    return float(getattr(found, "pss", found.rss))
