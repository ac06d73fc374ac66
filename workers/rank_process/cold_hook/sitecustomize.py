"""Runs in an interpreter of the user's own as it starts, before the script: a cold rank can say where it hangs.

It has the rank write its stacks at a signal, and start the sampler of collectives once its process group exists, as a
warm rank does. What a script sees stays as it is: the folder that led here leaves PYTHONPATH and ``sys.path``, the
variable its environment, and a ``sitecustomize`` of the user's own runs in its place. It uses Python's own library
alone, and no trouble of its own ever reaches the script.
"""

import atexit
import os
import sys
from collections.abc import Callable
from typing import Any

VARIABLE = "TRAINYARD_COLD_RANK"  # JSON, as workers.rank_process.cold_rank writes it
EMPTY = "TRAINYARD_COLD_RANK_PYTHONPATH"  # set where PYTHONPATH was, and empty
C10D = "torch.distributed.distributed_c10d"
MPI = "mpi4py.MPI"
FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # pathlib is a script's to import


troubles: list[Exception] = []


def leave_path() -> None:
    """Restore the path to what it is without us."""
    first, _, rest = os.environ.get("PYTHONPATH", "").partition(os.pathsep)
    if first == FOLDER:
        if rest or os.environ.pop(EMPTY, ""):
            os.environ["PYTHONPATH"] = rest
        else:
            del os.environ["PYTHONPATH"]
    sys.path[:] = [entry for entry in sys.path if entry != FOLDER]
    sys.path_importer_cache.pop(FOLDER, None)


def prepare(text: str) -> None:
    import json

    plan = json.loads(text)
    plan["pid"] = plan["pid"] or os.getpid()  # nobody outside of a container knows it
    if plan["pid"] != os.getpid():  # a program between the node and the rank, or one that the rank starts
        return
    if plan["signal"]:
        import faulthandler

        faulthandler.register(plan["signal"], file=2)
    sys.meta_path.insert(0, AfterImport(C10D, lambda module: quietly(lambda: watch_groups(module, plan))))
    if os.environ.get("PMI_SIZE", "1") != "1":
        sys.meta_path.insert(0, AfterImport(MPI, check_world))


class AfterImport:
    """A finder that calls ``act`` with the module once it is imported, and is gone as soon as that begins."""

    def __init__(self, name: str, act: Callable[[Any], None]) -> None:
        self._name, self._act = name, act

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        specs = (finder.find_spec(name, path, target) for finder in sys.meta_path)
        spec = next((one for one in specs if one is not None), None)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            original = loader.exec_module

            def exec_module(module: Any) -> None:
                del loader.exec_module
                original(module)
                self._act(module)

            loader.exec_module = exec_module
        return spec


def check_world(module: Any) -> None:
    """Refuse to train alone. An error that nobody catches ends the rank at once: else its library, which ends with the
    interpreter, would wait there for ranks that wait for this one."""
    if not module.Is_initialized():
        return
    size, original = os.environ["PMI_SIZE"], sys.excepthook
    if module.COMM_WORLD.Get_size() == 1:
        name = module.Get_library_version().partition("\n")[0].strip("\0 ")
        words = "ranks meet by MPICH (environment.requirements: mpi4py, mpich) or Intel MPI (impi-rt), in no container"
        raise RuntimeError(f"mpi4py runs on {name}, which sees 1 rank of {size} here: {words}")

    def excepthook(*error: Any) -> None:
        original(*error)
        atexit._run_exitfuncs()
        os._exit(1)

    sys.excepthook = excepthook


def watch_groups(module: Any, plan: Any) -> None:
    """Start the sampler once the rank has a process group."""
    import functools

    original = module.init_process_group
    started: list[bool] = []

    @functools.wraps(original)
    def init_process_group(*arguments: Any, **named: Any) -> Any:
        answer = original(*arguments, **named)
        if not started and os.getpid() == plan["pid"]:
            started.append(True)
            quietly(lambda: start_sampler(plan))
        return answer

    module.init_process_group = init_process_group


def start_sampler(plan: Any) -> None:
    """Have the sampler run in a page of memory, which is copied to the file that the supervisor reads."""
    from pathlib import Path

    marker, sampler = (load(plan["progress"], name) for name in ("marker", "sampler"))
    mark, path = marker.Marker(bytearray(marker.SIZE)), plan["marks"]

    def copy() -> None:
        descriptor = os.open(path, os.O_WRONLY)
        try:
            os.write(descriptor, mark.to_bytes())
        finally:
            os.close(descriptor)

    sampler.start_sampler(mark, Path(plan["code"]), lambda: quietly(copy))


def load(folder: str, name: str) -> Any:
    """Return the module of that file. No import of the script's finds it."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("_trainyard_" + name, folder + "/" + name + ".py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def quietly(act: Callable[[], object]) -> None:
    try:
        act()
    except Exception as error:  # the training is worth more than what is known of it
        troubles.append(error)


if __name__ == "sitecustomize":
    leave_path()
    words = os.environ.pop(VARIABLE, "")
    if words:
        quietly(lambda: prepare(words))
    del sys.modules["sitecustomize"]
    # The user's own. Where there is none, Python takes this error as it takes ours.
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
