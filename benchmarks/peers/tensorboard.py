"""TensorBoard: its own writer, and its server with its own data server, asked as its page asks."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from benchmarks.peers.drive import end, fetch, free_port, main, serve, size_of

RELOAD_S = "0.1"  # by default it looks every five seconds


class TensorBoard:
    def __init__(self, folder: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._logs = folder / "logs"
        self._url = f"http://127.0.0.1:{free_port()}"
        words = [
            str(Path(sys.executable).with_name("tensorboard")), "--logdir", str(self._logs), "--host", "127.0.0.1",
            "--port", self._url.rpartition(":")[2], "--reload_interval", RELOAD_S, "--load_fast", "auto",
        ]  # fmt: skip
        self._logs.mkdir(parents=True)
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"}
        self._server = serve(words, f"{self._url}/data/environment", folder / "server.log", environment)
        self._writer = EventFileWriter(str(self._logs / "one"))
        self._event, self._summary = Event, Summary

    def log(self, values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            # One event a scalar, as PyTorch's add_scalar writes it; TensorBoard's own Writer costs four times as much.
            summary = self._summary(value=[self._summary.Value(tag=name, simple_value=value)])
            self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=summary))

    def finish(self) -> None:
        self._writer.flush()
        self._writer.close()

    def read(self, name: str) -> tuple[int, int]:
        try:
            rows = json.loads(fetch(f"{self._url}/data/plugin/scalars/scalars?run=one&tag={name}"))
        except OSError:  # it answers 404 until it has found the first of them
            return 0, 0
        return len(rows), int(rows[-1][1]) if rows else 0

    def doors(self, count: int) -> dict[str, float]:
        """Seconds in which the events of a folder are read, without a server beside it."""
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        self.close()
        began = time.perf_counter()
        read = EventAccumulator(os.environ["BENCH_EVENTS"], size_guidance={"scalars": 0}).Reload()
        found = sum(len(read.Scalars(tag)) for tag in read.Tags()["scalars"])
        seconds = time.perf_counter() - began
        if found != count:
            raise RuntimeError(f"{found} of {count} points")
        return {"seconds": seconds}

    def stored_bytes(self) -> int:
        return size_of(self._logs)

    def close(self) -> None:
        end(self._server)


if __name__ == "__main__":
    main(TensorBoard)
