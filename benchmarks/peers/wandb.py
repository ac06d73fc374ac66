"""W&B offline: one file, which nothing reads but the maker's server; so there is no reading to measure."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.peers.drive import main, size_of


class Wandb:
    def __init__(self, folder: Path) -> None:
        os.environ.update(
            WANDB_MODE="offline", WANDB_SILENT="true", WANDB_ERROR_REPORTING="false", WANDB_DIR=str(folder),
            WANDB_CACHE_DIR=str(folder / "cache"), WANDB_CONFIG_DIR=str(folder / "config"),
            WANDB_DATA_DIR=str(folder / "data"), DO_NOT_TRACK="1",
        )  # fmt: skip
        import wandb

        self._folder = folder
        settings = wandb.Settings(
            console="off", disable_git=True, disable_code=True, x_disable_stats=True, x_disable_meta=True
        )
        self._run = wandb.init(project="bench", mode="offline", dir=str(folder), settings=settings)

    def log(self, values: dict[str, float], step: int) -> None:
        self._run.log(values, step=step)

    def finish(self) -> None:
        self._run.finish()

    def read(self, name: str) -> None:
        return None

    def stored_bytes(self) -> int:
        return size_of(*self._folder.rglob("*.wandb"))

    def close(self) -> None:
        pass


if __name__ == "__main__":
    main(Wandb)
