"""Means by which a cold rank, an interpreter of the user's own, says where it hangs: see ``cold_hook``."""

import os
from collections.abc import Mapping
from pathlib import Path

from trainyard.contract.base import WireStruct, encode
from trainyard.spooling.plain_files import create_plain, open_plain
from workers.progress import marker
from workers.progress.marker import SIZE, Marker, Marks

HOOK = Path(__file__).resolve().parent / "cold_hook"
PROGRESS = str(Path(marker.__file__).resolve().parent)  # where the sampler is
VARIABLE = "TRAINYARD_COLD_RANK"
EMPTY = "TRAINYARD_COLD_RANK_PYTHONPATH"


class ColdRank(WireStruct):
    """The variable, as JSON."""

    pid: int  # 0: of the first interpreter that finds this, as in a container
    signal: int  # at which it writes its stacks; 0: none
    marks: str  # the file to which its sampler copies its marks
    code: str  # the folder with the user's code
    progress: str = PROGRESS


def hooked_environment(environment: Mapping[str, str], *, marks: Path, code: Path, signal: int) -> dict[str, str]:
    """Return the environment of an interpreter that this process is about to become. The hook takes what is added away
    again, before the script begins."""
    try:
        with create_plain(marks) as file:
            file.write(bytes(SIZE))
    except OSError:  # a full disk: it is without
        return dict(environment)
    return with_hook(environment, ColdRank(pid=os.getpid(), signal=signal, marks=str(marks), code=str(code)))


def with_hook(environment: Mapping[str, str], plan: ColdRank) -> dict[str, str]:
    """The same where the file of the marks is there already."""
    return {**environment, **leading_to_hook(environment.get("PYTHONPATH")), VARIABLE: encode(plan)}


def leading_to_hook(python_path: str | None) -> dict[str, str]:
    """Return PYTHONPATH with the hook first. Python takes an empty one for none; after a colon it is a folder."""
    if python_path:
        return {"PYTHONPATH": f"{HOOK}{os.pathsep}{python_path}"}
    return {"PYTHONPATH": str(HOOK), **({EMPTY: "1"} if python_path == "" else {})}


def marks_in(path: Path) -> Marks:
    """Return the marks that a cold rank has copied. It is the user's file: anything may stand there, or nothing."""
    try:
        with open_plain(path) as file:
            data = file.read(SIZE)
    except OSError:
        data = b""
    return Marker(bytearray(data.ljust(SIZE, b"\0"))).read()
