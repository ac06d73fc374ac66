"""One client per process, whoever asks first."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from runs.serving.transport import made_once


def test_threads_that_ask_first_at_one_moment_get_one_client() -> None:
    together = Barrier(8)

    @made_once
    def client() -> object:
        time.sleep(0.05)
        return object()

    def ask(_: int) -> object:
        together.wait()
        return client()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1
