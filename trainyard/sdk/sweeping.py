"""Starting a sweep from a script, and waiting for its end.

``trainyard.sweep(...)`` needs a server, unlike ``trainyard.init``: it raises where there is none. The client is
imported when it is called, so that ``import trainyard`` stays cheap.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from trainyard.contract.base import JsonObject
from trainyard.contract.statuses import SWEEP_FINAL

if TYPE_CHECKING:
    from trainyard.contract.answers.sweeps import BestTrial, Trial
    from trainyard.contract.answers.sweeps import Sweep as SweepAnswer
    from trainyard.rest.client import Client

POLL_S = 0.5
T = TypeVar("T")


class Sweep:
    """A sweep on the server. What it reads is as of the last call of ``refresh`` or ``wait``."""

    def __init__(self, answer: SweepAnswer) -> None:
        self._answer = answer

    @property
    def id(self) -> str:
        return self._answer["id"]

    @property
    def status(self) -> str:
        return self._answer["status"]

    @property
    def best(self) -> BestTrial | None:
        """The best trial that completed: ``number, run, value, parameters``."""
        return self._answer["best"]

    @property
    def trials(self) -> Sequence[Trial]:
        return self._answer["trials"]

    def refresh(self) -> Sweep:
        self._answer = _with_client(lambda client: client.sweep(self.id))
        return self

    def wait(self, timeout_s: float | None = None) -> Sweep:
        """Return once the sweep has ended. Raises TimeoutError."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self.refresh().status not in SWEEP_FINAL:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"sweep {self.id} is still {self.status} after {timeout_s:g} s")
            time.sleep(POLL_S)
        return self

    def stop(self) -> Sweep:
        self._answer = _with_client(lambda client: client.stop_sweep(self.id))
        return self


def sweep(
    name: str,
    *,
    base: Mapping[str, Any],
    space: Mapping[str, Mapping[str, Any]],
    objective: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    trials: int,
    parallel: int = 1,
    **fields: Any,
) -> Sweep:
    """Start a sweep over fields of ``base``, a spec or ``{"job": id}``. ``fields`` are the rest of its document, as
    ``sampler="tpe"`` and ``pruner={"name": "asha"}``. Raises ApiError for what the server refuses."""
    budget = {**fields.pop("budget", {}), "trials": trials, "parallel": parallel}
    objectives: Any = dict(objective) if isinstance(objective, Mapping) else [dict(one) for one in objective]
    document: JsonObject = {
        "name": name,
        "base": dict(base),
        "space": {path: dict(one) for path, one in space.items()},
        "objective": objectives,
        "budget": budget,
        **fields,
    }
    return Sweep(_with_client(lambda client: client.start_sweep(document)))


def _with_client(ask: Callable[[Client], T]) -> T:
    from trainyard.rest.client import Client
    from trainyard.rest.config import load, renewed_token

    config = load()
    with Client(config.url, config.token, renew=partial(renewed_token, *config)) as client:
        return ask(client)
