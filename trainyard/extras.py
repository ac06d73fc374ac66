"""Extras of pyproject.toml, which a plain ``pip install trainyard`` leaves out, and the error for a missing one."""

import importlib.util
from collections.abc import Iterable

# A package of each extra that nothing else brings.
EXTRAS = {
    "server": ("django", "channels", "uvicorn", "whitenoise"),
    "node": ("celery", "psutil", "structlog", "numpy", "safetensors", "tokenizers", "PIL", "fsspec", "aiohttp"),
    "data": ("pyarrow", "sklearn"),
    "train": ("torch",),
}


def missing(packages: Iterable[str]) -> list[str]:
    return [name for name in packages if importlib.util.find_spec(name) is None]


def lacking(what: str, extra: str) -> str:
    """Say what to install where packages of the extra are missing; nothing where they are all there."""
    absent = missing(EXTRAS[extra])
    return f"{what} needs {', '.join(absent)}: {advice(extra)}" if absent else ""


def advice(extra: str) -> str:
    return f"pip install 'trainyard[{extra}]'"


def explained(error: ModuleNotFoundError, what: str) -> str:
    """Say which extra has the module that could not be imported; nothing where none has it."""
    name = (error.name or "").partition(".")[0]
    extra = next((extra for extra, names in EXTRAS.items() if name in names), "")
    return f"{what} needs {name}, which is not installed here: {advice(extra)}" if extra else ""
