"""A producer over REST as docs/rest.md wants it: it numbers its batches and repeats each until it is answered 2xx."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import httpx

from tests.points import ANY_ATTEMPT, Points, gathered, key_of, rows
from tests.up_process import Up

NAME = "rest/loss"
VALUES = (0.25, -1.5, 1 / 3, "NaN", "-Infinity")


class Reporter(threading.Thread):
    """Sends points of one run until ``stop``, which waits for the last answer."""

    def __init__(self, up: Up, run: str, choice: random.Random) -> None:
        super().__init__(name=f"reporter of {run}", daemon=True)
        self._run = run
        self._choice = choice
        self._producer = f"{choice.getrandbits(128):032x}"
        headers = {"Authorization": f"Bearer {up.token}"}
        self._http = httpx.Client(base_url=f"{up.url}/api/v1", headers=headers, timeout=10)
        self._over = threading.Event()
        self._is_given_up = False
        self._taken: list[dict[str, Any]] = []
        self.num_retries = 0
        self.refused: str | None = None  # a 4xx, which this producer can never deserve

    def run(self) -> None:
        sequence = 0
        with self._http:
            while not self._over.wait(self._choice.random() * 0.1) and self.refused is None:
                sequence += 1
                points = [self._point() for _ in range(self._choice.randrange(1, 40))]
                batch = {"producer": self._producer, "sequence": sequence, "points": points}
                if self._send(batch):
                    self._taken += points
                if self._choice.random() < 0.2:  # an answer that was lost on the way looks like this
                    self._send(batch)

    def stop(self) -> None:
        self._over.set()
        self.join(90)
        assert not self.is_alive(), "a batch was not taken for 90 seconds"
        assert self.refused is None, self.refused

    def give_up(self) -> None:
        """Ask no more, answered or not."""
        self._over.set()
        self._is_given_up = True
        self.join()

    def points(self) -> Points:
        columns = [[point[name] for point in self._taken] for name in ("step", "time", "value")]
        steps, times, values = columns
        found = rows(steps, times, [float(value) for value in values])
        return gathered([(key_of(self._run, ANY_ATTEMPT, NAME, {}), found)])

    def _point(self) -> dict[str, Any]:
        step = self._choice.randrange(-5, 200)
        return {"name": NAME, "step": step, "time": time.time(), "value": self._choice.choice(VALUES)}

    def _send(self, batch: dict[str, Any]) -> bool:
        while not self._is_given_up:
            try:
                answer = self._http.post(f"/runs/{self._run}/points", json=batch)
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.is_success:
                return True
            if answer is not None and answer.is_client_error:
                self.refused = f"{answer.status_code} {answer.text}"
                return False
            self.num_retries += 1
            time.sleep(0.05)
        return False
