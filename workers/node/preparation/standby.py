"""Preparations of a spare node for runs that may come here: their code, their interpreter, and the warm process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import httpx
import structlog

from trainyard.contract.desired import StandbyRun
from workers.node.preparation.bundles import BundleSource, CannotRunHere, fetch_bundle
from workers.node.preparation.interpreters import is_program
from workers.sandbox.node import NO_ISOLATION, Isolation

log = structlog.get_logger(__name__)

WARMING = "its warm process is starting"
MAX_PROBLEM = 500


class Standby:
    """``take`` is called with what is wanted now; ``prepare`` does what is left of it, in a thread of its own."""

    def __init__(
        self, cache: Path, source: BundleSource, is_warm: Callable[[], bool], isolation: Isolation = NO_ISOLATION
    ) -> None:
        self._cache = cache
        self._source = source
        self._is_warm = is_warm
        self._isolation = isolation
        self._wanted: dict[str, StandbyRun] = {}
        self._found: dict[str, str] = {}  # by run: why it is not prepared, or ""

    def take(self, wanted: Sequence[StandbyRun]) -> None:
        self._wanted = {one.run: one for one in wanted}

    def prepare(self) -> None:
        """Prepare for these runs. Steps that failed are tried again."""
        wanted = self._wanted
        self._found = {run: why for run, why in self._found.items() if run in wanted}
        for run, one in wanted.items():
            if self._found.get(run) != "":
                self._found[run] = self._prepare(one)
                if not self._found[run]:
                    log.info("standby.ready", run=run)

    def status(self) -> dict[str, str]:
        """Return by run why it could not begin here as quickly as a restart; empty where it could."""
        found = {run: self._found[run] for run in self._wanted if run in self._found}
        return found if self._is_warm() else dict.fromkeys(found, WARMING)

    def _prepare(self, one: StandbyRun) -> str:
        try:
            if one.code is not None:
                fetch_bundle(one.code.sha256, self._cache / "bundles", self._source)
        except CannotRunHere as refusal:
            return str(refusal)[:MAX_PROBLEM]
        except (httpx.HTTPError, OSError) as error:
            return f"its code cannot be fetched: {error}"[:MAX_PROBLEM]
        if one.python and not is_program(one.python, self._isolation):
            return f"there is no program {one.python} here, which task.python names"[:MAX_PROBLEM]
        return ""
