from __future__ import annotations

from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)  # as ranks of tests have: beside other parts, threads that wait for each other spin


@pytest.fixture(scope="session")
def corpus_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpus-cache")


@pytest.fixture(autouse=True)
def own_cache(corpus_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads the developer's cache; within a process they share one, for building it takes a while."""
    monkeypatch.setenv("TRAINYARD_CACHE", str(corpus_cache))
