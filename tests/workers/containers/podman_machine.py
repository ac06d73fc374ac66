"""This machine's Podman with a storage of its own, and an image that is made of the Python that runs the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

from workers.containers.documents import ContainerRuntime
from workers.containers.podman import podman_environment, try_out

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
LEFT_OUT = ("test", "tests", "site-packages", "dist-packages", "__pycache__", "idlelib", "tkinter", "ensurepip")
PACKAGES = Path(sysconfig.get_path("purelib"))


class Machine:
    """Podman with a storage of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "empty").mkdir()
        settings = f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
        (folder / "storage.conf").write_text(settings)
        self.settings = {"CONTAINERS_STORAGE_CONF": str(folder / "storage.conf")}
        self.environment = podman_environment({**os.environ, **self.settings})
        program = shutil.which("podman") or ""
        self.runtime = try_out(ContainerRuntime(program=program), self.environment)

    def call(self, *words: str) -> str:
        answer = subprocess.run(
            ["podman", "--cgroup-manager", "cgroupfs", *words], env=self.environment, capture_output=True, text=True
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout.strip()

    def containers(self) -> str:
        return self.call("ps", "--all", "--quiet")


def root_archive(folder: Path) -> Path:
    """Write a root file system with this Python and the libraries that it needs."""
    base, path = Path("/usr"), folder / "root.tar"
    (folder / "marker").write_text("image 1")
    programs = [Path(f"/bin/{name}") for name in ("sh", "sleep", "cat")]
    with tarfile.open(path, "w") as archive:
        for name in ("bin", "sbin", "lib", "lib64"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            archive.addfile(link)
        for name in ("tmp", "proc", "sys", "dev", "etc", "usr", "usr/bin"):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(directory)
        archive.add(folder / "marker", "etc/marker")
        for program in programs:
            archive.add(program.resolve(), f"usr/bin/{program.name}")
        link = tarfile.TarInfo("usr/bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, PYTHON
        archive.addfile(link)
        archive.add((base / "bin" / PYTHON).resolve(), f"usr/bin/{PYTHON}")
        archive.add(base / "lib" / PYTHON, f"usr/lib/{PYTHON}", filter=needed)
        lookups = libraries(base / "lib" / PYTHON / "lib-dynload", base / "bin" / PYTHON, *programs)
        for library in sorted(lookups):
            name = str(library).lstrip("/")
            archive.add(library.resolve(), name if name.startswith("usr/") else f"usr/{name}")
    return path


def needed(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if any(part in LEFT_OUT or part.startswith("config-") for part in Path(entry.name).parts) else entry


def libraries(folder: Path, *programs: Path) -> set[Path]:
    found = set()
    torch = PACKAGES / "torch" / "lib" / "libtorch_cpu.so"
    for one in (*programs, *folder.glob("*.so"), *([torch] if torch.exists() else [])):
        lines = subprocess.run(["ldd", str(one)], capture_output=True, text=True, check=False).stdout.splitlines()
        words = [word for line in lines for word in line.split() if word.startswith("/")]
        found |= {Path(word) for word in words if not word.startswith(str(PACKAGES))}
    return found
