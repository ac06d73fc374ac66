"""Choice between a fork of the warm process and an interpreter of its own, by what a script needs to find."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from trainyard.contract.base import JsonObject

# Variables that Python, its libraries or the linker read once, before a script's first line: too late after a fork.
READ_AT_START = (
    *("PYTHON", "LD_", "GLIBC_", "MALLOC_", "LC_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "GOTO_", "BLIS_"),
    *("NPY_", "NUMPY_", "SCIPY_", "SKLEARN_", "JOBLIB_", "LOKY_", "SYMPY_"),
    *("TORCH_", "TORCHDYNAMO_", "TORCHINDUCTOR_", "PYTORCH_", "ATEN_", "C10_"),
)
READ_AT_START_TOO = frozenset(("LANG", "LANGUAGE"))
# These are read when they are used, or put right after the fork.
READ_LATER = ("TORCH_HOME", "TORCH_NCCL_", "TORCH_FR_", "TORCH_EXTENSIONS_DIR", "PYTHONPATH", "PYTHONFAULTHANDLER")
CUSTOM = ("sitecustomize", "usercustomize")
OURS = "workers"  # purged from a warm rank, so a user's module of that name is found


def why_cold(task: JsonObject, code: Path) -> str:
    """Return why the script cannot run warm, empty where it can. ``code`` is the folder it is started in."""
    if "mpi" in (task.get("launch") or []):
        return "task.launch has mpi, whose library ends with its interpreter"
    if "spark" in (task.get("launch") or []):
        return "task.launch has spark"
    own = {name: str(value) for name, value in (task.get("environment") or {}).items()}
    for name, value in own.items():
        if _is_read_at_start(name) and value != os.environ.get(name):
            return f"task.environment sets {name}, which is read as Python and its libraries start"
    folders = [first_folder(task, code), *python_path(own, code)]
    for folder in folders:
        for name in _modules_in(folder):
            if name in CUSTOM and folder != folders[0]:
                return f"PYTHONPATH leads to {name}.py, which Python runs as it starts"
            if name != OURS and _is_another(name, folder):
                return f"{folder.name}/{name} has the name of a module that the warm process has imported"
    return ""


def first_folder(task: JsonObject, code: Path) -> Path:
    """Return the folder that stands first on sys.path: the script's, or for a module the one it is started in."""
    return code.resolve() if task.get("module") else (code / str(task["script"])).resolve().parent


def python_path(environment: Mapping[str, str], folder: Path) -> list[Path]:
    """Return the folders that PYTHONPATH names, as Python does: an empty or relative one begins at the working
    folder."""
    value = environment.get("PYTHONPATH")
    return [folder / part for part in value.split(os.pathsep)] if value else []


def _is_read_at_start(name: str) -> bool:
    return name in READ_AT_START_TOO or (name.startswith(READ_AT_START) and not name.startswith(READ_LATER))


def _modules_in(folder: Path) -> Iterator[str]:
    """Yield the names that an import would find in the folder. One without ``__init__.py`` hides nothing."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.name.endswith((".py", ".so")):
            yield entry.name.split(".")[0]
        elif entry.is_dir() and Path(entry.path, "__init__.py").exists():
            yield entry.name


def _is_another(name: str, folder: Path) -> bool:
    """Return whether a module of that name was imported from elsewhere. What an interpreter imports before its path is
    set is always its own."""
    module = sys.modules.get(name)
    if module is None or name == "__main__" or name in sys.builtin_module_names:
        return False
    file = getattr(module, "__file__", None)
    return file is None or not Path(file).is_relative_to(folder)
