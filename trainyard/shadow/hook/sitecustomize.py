"""Runs as each Python begins that ``trainyard shadow`` has started, or that one of these starts: before the script.

It waits for the import of a library whose calls ``trainyard.shadow`` follows; where none is imported it costs nothing
more. What a script sees stays as it is: this folder leaves ``sys.path`` (it stays in PYTHONPATH, for children), and a
``sitecustomize`` of the user's own runs next. No trouble of its own ever reaches the script.
"""

import importlib
import os
import sys
from typing import Any

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # pathlib is a script's to import
MIRRORS = {
    "wandb": "wandb",
    "mlflow.tracking.client": "mlflow",
    "tensorboard.summary.writer.record_writer": "tensorboard",
    "tensorboardX.record_writer": "tensorboard",
    "lightning.fabric.loggers.csv_logs": "csv_logger",
    "lightning_fabric.loggers.csv_logs": "csv_logger",
}  # the module that is waited for, and that of ours which follows its calls


class Finder:
    """A finder that finds nothing itself: it has ``follow`` called with each of these modules once it is imported."""

    def __init__(self) -> None:
        self._left = dict(MIRRORS)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._left:
            return None
        others = (one for one in sys.meta_path if one is not self and hasattr(one, "find_spec"))
        spec = next((found for one in others if (found := one.find_spec(name, path, target)) is not None), None)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            original = loader.exec_module

            def exec_module(module: Any) -> None:
                original(module)
                if mirror := self._left.pop(name, None):
                    follow(mirror, module)

            try:
                loader.exec_module = exec_module
            except AttributeError:  # a loader of another kind
                say(f"{name} cannot be followed")
        return spec


def follow(mirror: str, module: Any) -> None:
    try:
        importlib.import_module(f"trainyard.shadow.{mirror}").follow(module)
    except Exception as error:  # the training is worth more than its mirror
        why = "this Python has no trainyard: install its wheel there" if _lacks_us(error) else repr(error)
        say(f"{module.__name__} is not mirrored: {why}")


def _lacks_us(error: Exception) -> bool:
    return isinstance(error, ImportError) and (error.name or "").partition(".")[0] in ("trainyard", "msgspec")


def say(sentence: str) -> None:
    try:
        sys.stderr.write(f"trainyard shadow: {sentence}\n")
    except Exception:  # a program without a standard error
        return


def install() -> None:
    """Follow what is imported already, and what will be."""
    sys.meta_path.insert(0, Finder())
    for name, mirror in MIRRORS.items():
        if name in sys.modules:
            follow(mirror, sys.modules[name])


def leave_path() -> None:
    sys.path[:] = [entry for entry in sys.path if entry != FOLDER]
    sys.path_importer_cache.pop(FOLDER, None)


if __name__ == "sitecustomize":
    leave_path()
    install()
    del sys.modules["sitecustomize"]
    # The user's own. Where there is none, Python takes this error as it takes ours.
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
