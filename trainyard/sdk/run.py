"""The SDK's Run: takes numbers from a training script and lets a thread of its own write them to the spool.

``log`` never waits for the disk and never raises: what it cannot take costs one warning and is counted. See
``trainyard.sdk.warning``.
"""

import itertools
import os
import sys
import threading
import time
from array import array
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from time import time as clock
from types import TracebackType
from typing import Any, Self, get_args

from trainyard.contract.records import YEAR_3000, AnyRecord, LossCounts, decode_record, encode_record, record_of
from trainyard.formats.media import Text
from trainyard.sdk import local_run as local
from trainyard.sdk import saving, streaming
from trainyard.sdk.buffers import (
    Groups,
    Labels,
    Late,
    Rows,
    clean_labels,
    clean_row,
    flat,
    learn_numpy,
    number,
    packer,
    records_of,
    whole_step,
)
from trainyard.sdk.description import Config, Stated, Summary, metric_rule, texts
from trainyard.sdk.media_queue import Album, Logged, MediaQueue, spread
from trainyard.sdk.outbox import Outbox
from trainyard.sdk.warning import WarnOnce
from trainyard.sdk.watching import Watched, watch

FLUSH_PERIOD_S = 0.05
RETRY_PERIOD_S = 1.0
FINISH_TIMEOUT_S = 5.0
ENCODE_TIMEOUT_S = 20.0  # for the media that wait at the end
NOTE_TIMEOUT_S = 1.0
MAX_NOTE_BYTES = 16 * 1024
MAX_PENDING_POINTS = 4_000_000  # some 100 MB while the disk refuses
PLAIN: set[type] = {float, int, bool}  # and the numbers of NumPy, once there are some


class Run:
    """The process's way to log. Made by ``trainyard.init``; may be used from several threads."""

    _held: dict[str, Any]  # by log(..., commit=False)
    _is_asleep: bool
    _num_pending: int
    _names: tuple[str, ...]
    _rows: Rows

    def __init__(
        self, name: str | None, folder: Path, local_id: str = "", project: str | None = None, *, is_sent: bool = True
    ) -> None:
        self.name = name
        self.project = project
        self.local_id = local_id  # outside of Trainyard: of the training that this process takes part in
        self.folder = Path(local.absolute(folder))  # the script may change its folder later
        self.is_finished = False
        self.num_bad_values = 0  # values that are no numbers, steps that are no integers
        self.num_lost_points = 0  # for which there was no room, since the disk refused for too long; media count as one
        self.num_refused_points = 0  # points that came while the spool was at its limit
        self._is_sent = is_sent
        self._steps = itertools.count()
        self._note: Path | None = None
        self._texts: dict[str, str] = {}  # the last of each name
        self._saved_at_end: dict[str, Path] = {}
        self._stated = Stated(self._describe_soon)
        self._summary = Summary(self)
        self._warn = WarnOnce()
        self._start_empty()
        self._rouse()

    def log(
        self,
        values: Mapping[str, Any],
        step: int | None = None,
        labels: Mapping[str, str] | None = None,
        *,
        commit: bool = True,
        wait_for_gpu: bool = False,
        time: float | datetime | None = None,
    ) -> None:
        """Take a number, a text, or one or a list of media, for each name in ``values`` at ``step``: by itself 0, 1, …

        ``{"train": {"loss": 1}}`` is ``train/loss``. Steps may repeat or go back. NaN and infinities are kept. Anything
        with ``item()`` or ``__float__`` is a number. A text is kept where it differs from the one before. A number on a
        GPU is copied behind what that has to do and written once it has arrived; ``wait_for_gpu`` reads it at once.
        ``commit=False`` holds the values back, for the next call. ``time``: Unix seconds, or a datetime; else now.
        """
        now, late, album = clock() if time is None else self._clean_time(time), None, None
        if (self._held or not commit) and not (values := self._hold(values, is_over=commit)):
            return
        try:
            is_plain = PLAIN.issuperset(map(type, values.values()))
            names = tuple(values)
            row = packer(len(names))(*values.values()) if is_plain else b""  # twice as quick as an array of them
        except Exception:  # not a mapping, or a number that no float can hold: the slow way finds out what
            is_plain = False
        if not is_plain:  # scalars of torch and numpy too: their float() may warn, their item() does not
            plain = self._without_texts(flat(values))
            names, numbers, late, album = clean_row(plain, self._refuse, wait=wait_for_gpu)
            row = numbers.tobytes()
            learn_numpy(PLAIN)
        if step is None:
            step = next(self._steps)
        elif type(step) is not int or not -(2**63) <= step < 2**63:
            step = self._clean_step(step, len(names) + len(album or ()))
        if step is None or not (names or album):
            return
        cleaned = clean_labels(labels, self._refuse) if labels else ()
        if album:
            self._keep(album, cleaned, step, now)
            if not names:
                return
        with self._lock:
            is_taken = not self.is_finished and self._num_pending < MAX_PENDING_POINTS
            if is_taken:
                if late:
                    self._late.append(Late(names, cleaned, step, now, array("d", row), late))
                else:
                    if cleaned or names != self._names:  # else the same call as before: nothing is hashed
                        self._rows, self._names = self._groups[names, cleaned], () if cleaned else names
                    self._rows.steps.append(step)
                    self._rows.times.append(now)
                    self._rows.values.frombytes(row)
                self._num_pending += len(names)
            must_rouse = self._is_asleep
            self._is_asleep = False
        if not is_taken:
            self._lose(len(names))
        if must_rouse:
            self._rouse()

    def log_rows(self, groups: Groups) -> None:
        """Take rows of plain numbers that lie packed by their names and labels."""
        with self._lock:
            is_taken = not self.is_finished and self._num_pending < MAX_PENDING_POINTS
            for (names, labels), rows in groups.items() if is_taken else ():
                own = self._groups[names, labels]
                own.steps.extend(rows.steps)
                own.times.extend(rows.times)
                own.values.extend(rows.values)
                self._num_pending += len(rows.values)
            self._is_asleep = False
        if not is_taken:
            self._lose(sum(len(rows.values) for rows in groups.values()))
        self._rouse()

    def _hold(self, values: Mapping[str, Any], *, is_over: bool) -> Mapping[str, Any]:
        """Keep the values beside those that are held already; where that ``is_over``, return them all."""
        with self._lock:  # hooks of a model that is watched run in threads of their own
            try:
                held = {**self._held, **values}
            except TypeError:  # not a mapping
                self._refuse("log", f"takes a dictionary of numbers, not {type(values).__name__}")
                return {}
            self._held, held = ({}, held) if is_over else (held, {})
        return held

    def alert(self, title: str, text: str = "", level: str = "info", step: int | None = None) -> None:
        """Keep a text under ``alert/info``, ``alert/warn`` or ``alert/error``, at ``step`` or the newest one."""
        said = Text("\n".join(filter(None, (title, text))))
        self.log({f"alert/{level.lower()}": said}, self.newest()[1] if step is None else step)

    def note(self, payload: Mapping[str, Any], kind: str = "checkpoint") -> None:
        """Record what became of a checkpoint, or ``facts``: the fields of a ``trainyard.contract.records.Checkpoint``.

        Unlike ``log`` it returns once the record is in the spool, so that a checkpoint that is on the disk is known
        whatever is killed next. It never raises: what is no such record costs one warning and is counted.
        """
        try:
            record = record_of(kind, dict(payload))
        except Exception as error:  # no such record, or a foreign object that raises what it likes
            self._refuse("note", f"cannot be written: {str(error) or type(error).__name__:.300}")
        else:
            self.report(record)

    def report(self, record: AnyRecord) -> None:
        """Write a record of the contract, as ``note`` does."""
        try:
            body = encode_record(record)
            decode_record(body)  # what no server would take
            is_small = len(body) <= MAX_NOTE_BYTES
        except Exception as error:  # such as an integer beyond 64 bits
            self._refuse("note", f"cannot be written: {str(error) or type(error).__name__:.300}")
            return
        if not is_small or self.is_finished:
            self._refuse("note", "came after finish()" if self.is_finished else f"is over {MAX_NOTE_BYTES} bytes")
            return
        self.flush(record)

    def flush(self, *records: AnyRecord) -> bool:
        """Write what was logged, then ``records``, into the spool; wait a second for the writing thread. Return whether
        all of it is there: a full disk takes it later, or never where this process ends first."""
        if self.is_finished:
            return True
        self._take(with_media=False)
        for record in records:
            self._outbox.put(record, 0)
        is_kept = False
        if self._writing.acquire(timeout=NOTE_TIMEOUT_S):
            try:
                is_kept = self._write()
            finally:
                self._writing.release()
        self._rouse()
        return is_kept

    def finish(self, exit_code: int = 0) -> None:
        """Write what is left and the end record. Logging afterwards costs a warning. Any ``exit_code`` but 0 says that
        the run failed."""
        if self._held:
            self.log({})
        self._end(f"{local.ERROR}exit code {exit_code}" if exit_code else "finish")
        local.leave()

    def note_to_resume(self, note: Path) -> None:
        """Leave the run's id where ``init(resume="auto")`` finds it until the run is finished."""
        try:
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text(self.local_id)
            self._note = Path(local.absolute(note))
        except OSError as error:
            self._warn("disk", f"{note} cannot be written ({error}); resume='auto' will not find this run")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is None:
            self.finish()
            return
        self._end(local.reason_of(kind, error))
        local.leave()

    # What the script states about its run.

    @property
    def id(self) -> str:
        """The id of the run on the server, where it is known; else that of the folder it is written to."""
        sent = self._stream.run_id if self._stream is not None else ""
        return os.environ.get("TRAINYARD_RUN") or sent or self.local_id

    @property
    def url(self) -> str | None:
        """The address of its page; None where no server is known to have it."""
        return self._stream.page if self._stream is not None else None

    @property
    def config(self) -> Config:
        """Its configuration (see ``trainyard.sdk.description.Config``). That of the first rank counts; another's is not
        sent."""
        return self._stated.config

    @property
    def summary(self) -> Summary:
        """Its summary (see ``trainyard.sdk.description.Summary``)."""
        return self._summary

    def newest(self) -> tuple[dict[str, float], int]:
        """Return the last value that this process logged of each series without labels, and the newest step. What its
        summary states is no such series."""
        self.flush()
        lasts = {name: last for name, last in self._lasts.items() if not name.startswith("summary/")}
        return lasts, self._newest_step

    def describe(
        self,
        *,
        config: Any = None,
        tags: Iterable[str] | None = None,
        notes: str | None = None,
        group: str | None = None,
        job_type: str | None = None,
    ) -> None:
        """Add to the configuration and the tags, and replace the others. Raises as ``Config.update`` does."""
        stated = self._stated
        if config is not None:
            stated.config.update(config)
        if tags is not None:
            stated.tags = list(dict.fromkeys([*stated.tags, *texts("tags", tags)]))
        stated.notes = stated.notes if notes is None else str(notes)
        stated.group = stated.group if group is None else str(group)
        stated.job_type = stated.job_type if job_type is None else str(job_type)
        self._describe_soon()

    def define_metric(
        self, name: str, *, step_metric: str | None = None, summary: str | None = None, goal: str | None = None
    ) -> None:
        """Say over which metric this one is drawn, which of last, min, max, mean and best stands for it, and whether
        the goal is to minimize or maximize it. Raises ValueError for other words."""
        rule = metric_rule(name, step_metric, summary, goal)
        self._stated.metrics = {**self._stated.metrics, name.encode("utf-8", "replace").decode(): rule}
        self._describe_soon()

    def watch(self, model: Any, log: Watched = "gradients", every: int = 100) -> None:
        """Log histograms of the model's gradients, its parameters, or ``all``, as they are in every so many backward
        passes, the first included. They come with the next call of ``log``. Raises ValueError and TypeError."""
        watch(self, model, log, every)

    def save(
        self, path: str | os.PathLike[str], base: str | os.PathLike[str] | None = None, policy: saving.Policy = "now"
    ) -> list[Path]:
        """Keep a file, the files of a folder or of a pattern (``*.pt``) with the run, as they are now; with "end" also
        as they are when the run is finished. In the run they have their paths from ``base``, else from the present
        folder. Returns the copies. Raises ValueError for another policy, for no such file and for a base above none,
        and OSError where one cannot be copied."""
        if policy not in get_args(saving.Policy):
            raise ValueError(f"save: policy={policy!r} is none of {', '.join(get_args(saving.Policy))}")
        files = saving.chosen(path, base)
        if not files:
            raise ValueError(f"save: there is no file {os.fspath(path)!r}")
        if policy == "end":
            self._saved_at_end.update(files)
        return self._save(files)

    def log_code(self, root: str | os.PathLike[str] = ".") -> list[Path]:
        """Keep the files of Python below a folder, at most 1,000, as ``code/``. Inside of Trainyard nothing is to be
        done: a run's code is kept. Returns the copies. Raises OSError."""
        if not self.local_id:
            return []
        return self._save({f"code/{name}": file for name, file in saving.code(Path(root)).items()})

    def _save(self, files: dict[str, Path]) -> list[Path]:
        output = None if self.local_id else os.environ.get("TRAINYARD_OUTPUT")
        copies = saving.copy(files, Path(output) if output else self.folder / saving.FOLDER)
        self._rouse()
        return copies

    def _describe_soon(self) -> None:
        with self._lock:
            self._must_describe = True
            self._is_asleep = False
        self._rouse()

    def _without_texts(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the values with texts as media, and without those that are as before."""
        if not isinstance(values, Mapping):
            return values
        made = {}
        for name, value in values.items():
            if not isinstance(value, str):
                made[name] = value
            elif self._texts.get(name) != value:
                self._texts[name] = value
                made[name] = Text(value)
        return made

    def _keep(self, album: Album, labels: Labels, step: int, now: float) -> None:
        """Leave media to the writing thread, which encodes them."""
        for name, own, media in spread(album, labels, self._refuse):
            with self._lock:
                is_taken = not self.is_finished and self._media.put(Logged(name, own, step, now, media))
                self._num_pending += is_taken  # as one point
            if not is_taken:
                self._lose(1)
        self._rouse()

    def _refuse(self, name: str, why: str, num_values: int = 1) -> None:
        with self._lock:
            self.num_bad_values += num_values
        self._warn(f"value {name}", f"{name!r} {why}; it is left out")

    def _clean_step(self, step: object, num_values: int) -> int | None:
        whole = whole_step(step)
        if whole is None:
            self._refuse("step", f"is not an integer of 64 bits: {step!r:.60}", num_values)
        return whole

    def _clean_time(self, time: object) -> float:
        """Return the time in Unix seconds; now for what is none."""
        try:
            if 0 <= (found := time.timestamp() if isinstance(time, datetime) else number(time)) <= YEAR_3000:
                return found
        except Exception:  # anything may come; it is named below
            pass
        self._refuse("time", f"is no time from 1970 to 3000 in Unix seconds: {time!r:.60}")
        return clock()

    def _lose(self, num_points: int) -> None:
        with self._lock:
            self.num_lost_points += num_points
        if self.is_finished:
            self._warn("finished", "log() after finish() does nothing")
        else:
            self._warn("full", f"the spool in {self.folder} cannot be written fast enough; points are dropped")

    # The writing side: one thread, which sleeps until a log call finds it asleep.

    def _start_empty(self) -> None:
        # Re-entrant, since a signal handler may log while its own thread is inside log.
        self._lock = threading.RLock()
        self._groups: Groups = defaultdict(Rows)
        self._names = ()  # of the newest call without labels, and where it went
        self._rows = Rows()
        self._late: deque[Late] = deque()
        self._held = {}
        self._lasts: dict[str, float] = {}
        self._newest_step = 0
        self._must_describe = False
        self._num_pending = 0
        self._is_asleep = True
        self._writing = threading.RLock()
        self._outbox = Outbox(self.folder, lambda: local.begin_record(self.name, self.local_id, self.project))
        self._media = MediaQueue(self._lock, lambda: self._outbox.num_data_bytes)
        self._thread: threading.Thread | None = None
        self._stream: streaming.Stream | None = None
        self._wake = threading.Event()
        self._closing = threading.Event()

    def _become_another_producer(self) -> None:
        # The parent writes what it had buffered, and says what it lost. The child is a new producer once it logs, and
        # not before: most children (workers of a data loader) never do.
        self._outbox.abandon()
        self._note = None
        self._saved_at_end = {}
        self.num_bad_values = self.num_lost_points = self.num_refused_points = 0
        self._start_empty()

    def _rouse(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="trainyard-spool", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:  # no thread to be had, or the interpreter ends: finish writes all
                self._warn("thread", f"points are written at the end only: {error}")
            if self._is_sent:
                self._stream = streaming.begin(self.folder, self.local_id, self._warn)
            # Children of multiprocessing leave by ``os._exit``, which skips atexit but not these finalizers.
            if (util := sys.modules.get("multiprocessing.util")) is not None:
                util.Finalize(None, self._end, args=("exit",), exitpriority=0)
        self._wake.set()

    def _serve(self) -> None:
        is_writable = self._write()  # the begin record goes out before anything is logged
        while not self._closing.is_set():
            if not self._outbox and not self._take() and not self._late:
                self._wake.wait()
                self._wake.clear()
                continue
            is_writable = self._write()
            if not self._media or not is_writable:  # else there is more to encode
                self._closing.wait(FLUSH_PERIOD_S if is_writable else RETRY_PERIOD_S)

    def _take(self, *, with_media: bool = True) -> bool:
        """Turn what was logged into records. Where nothing was, say that the next log call must wake this thread."""
        with self._lock:
            groups, self._groups = self._groups, defaultdict(Rows)
            self._names = ()
            while self._late and self._late[0].has_arrived():
                late = self._late.popleft()
                num_points = len(late.row)
                late.complete(self._refuse)
                self._num_pending += len(late.row) - num_points
                if late.names:
                    groups[late.names, late.labels].add(late.step, late.time, late.row)
            self._is_asleep = not groups and not self._late
            must_describe, self._must_describe = self._must_describe, False
        if must_describe and local.rank_of() <= 0 and (stated := self._stated.record(self._refuse)) is not None:
            self._outbox.put(stated, 0)
        for (names, labels), rows in groups.items():
            self._newest_step = max(self._newest_step, max(rows.steps))
            if not labels:
                self._lasts.update(zip(names, rows.values[-len(names) :], strict=True))
        for record, num_points in records_of(groups, self._refuse):
            self._outbox.put(record, num_points)
        return (with_media and self._take_media()) or bool(groups) or must_describe

    def _take_media(self) -> bool:
        taken = self._media.take(self._refuse)
        for record in taken:
            if record is None:
                self._count_written(1)
            else:
                self._outbox.put(record, 1)
        return bool(taken)

    def _write(self, *, is_last: bool = False) -> bool:
        """Write the records in order and return whether the disk took them all; what it refused stays."""
        with self._writing:
            try:
                self._outbox.write(self._count_written)
                if self.num_refused_points != self._outbox.num_refused_points:
                    self.num_refused_points = self._outbox.num_refused_points
                    full = f"the spool in {self.folder} is at its limit; points are dropped until some is shipped"
                    self._warn("limit", full)
                losses = LossCounts(self.num_lost_points, self.num_bad_values, self.num_refused_points)
                self._outbox.report_losses(losses, is_last=is_last)
            except OSError as error:
                self._warn("disk", f"the spool in {self.folder} cannot be written ({error}); training goes on")
                return False
        return True

    def _count_written(self, num_points: int) -> None:
        with self._lock:
            self._num_pending -= num_points

    def _end(self, reason: str) -> None:
        with self._lock:
            if self.is_finished:
                return
            self.is_finished = True
        if self._note is not None and reason in ("finish", "exit"):
            with suppress(OSError):
                self._note.unlink()
        if self._thread is None:  # a forked child that never logged
            return
        try:
            self._save({name: file for name, file in self._saved_at_end.items() if file.is_file()})
        except OSError as error:
            self._warn("save", f"a file cannot be kept as it is at the end ({error}); it is kept as it was saved")
        self._closing.set()
        self._wake.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(FINISH_TIMEOUT_S)
            if self._thread.is_alive():
                self._warn("hang", f"the spool in {self.folder} hangs; its last points may be lost")
                return
        self._take_last()
        if self._write(is_last=True):
            try:
                self._outbox.close(reason)
            except OSError as error:
                self._warn("disk", f"the end record could not be written ({error})")
        self.num_lost_points += self._outbox.num_points
        if self._stream is not None:
            self._stream.finish()

    def _take_last(self) -> None:
        """Take what is left, and give what a GPU still has to compute some time to arrive."""
        deadline = time.monotonic() + (ENCODE_TIMEOUT_S if self._media else FINISH_TIMEOUT_S)
        self._take()
        while (self._late or self._media) and time.monotonic() < deadline:
            time.sleep(0 if self._media else 0.01)
            self._take()
        if self._late:
            self._warn("late", "the GPU did not finish what was logged last; those points are lost")
            self.num_lost_points += sum(len(late.row) for late in self._late)
            self._late.clear()
        if self._media:
            self._warn("media", "what was logged last could not be encoded in time; it is lost")
            self.num_lost_points += len(self._media)
