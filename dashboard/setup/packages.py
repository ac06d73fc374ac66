"""Python packages: the locks by hash, the torch that fits this machine, and the project itself."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Sequence
from pathlib import Path

from .python import pip_command
from .steps import ROOT, VENV, VENV_PYTHON, SetupError, run, step

TORCH = "torch==2.13.0"
LOCKS = ROOT / "requirements"
PINNED = ("--no-deps", "--require-hashes", "-r")  # with a lock behind it
TOOLS = VENV / "tools"  # the installer's own folder, apart from what Trainyard imports


class Installer:
    """Installs for one Python: with uv, which is three times faster here, and with pip whatever uv cannot."""

    def __init__(self, python: Path = VENV_PYTHON) -> None:
        self._python = python
        self._pip = pip_command()
        listing = run([*self._pip, "config", "list"], "pip could not read its own settings.")
        self._settings = parse_settings(listing)
        self._uv = self._fetch_uv()

    @property
    def name(self) -> str:
        return "uv" if self._uv else "pip"

    def install(self, words: Sequence[str | Path], sentence: str, with_links: bool = True) -> None:
        """Install `words`. Raises SetupError with `sentence` where neither installer can."""
        if self._uv:
            try:
                self._with_uv(words, with_links)
                return
            except SetupError:
                # A login, a certificate or a platform that uv does not know: pip may. It says what is wrong, if not.
                self._uv = None
        self._with_pip(words, sentence, with_links)

    def _with_uv(self, words: Sequence[str | Path], with_links: bool) -> None:
        # Bytecode now and by all cores: programs that start together would each compile the same files.
        flags = ["--compile-bytecode", *flags_of(self._settings, with_links)]
        changes = {"UV_COMPILE_BYTECODE_TIMEOUT": "600", **environment_of(self._settings)}
        command: list[str | Path] = [str(self._uv), "pip", "install", "--python", self._python, *flags, *words]
        run(command, "uv could not install.", changes)

    def _with_pip(self, words: Sequence[str | Path], sentence: str, with_links: bool) -> None:
        changes = dict(QUIET_PIP) if with_links else {**QUIET_PIP, "PIP_FIND_LINKS": ""}
        run([*self._pip, "--python", self._python, "install", *words], sentence, changes)

    def _fetch_uv(self) -> Path | None:
        lock = LOCKS / "installer.lock"
        uv = TOOLS / "bin" / "uv"
        stamp = TOOLS / "installer.lock"
        if uv.exists() and stamp.exists() and stamp.read_bytes() == lock.read_bytes():
            return uv
        try:
            shutil.rmtree(TOOLS, ignore_errors=True)
            fetch_apart(self._pip, lock, TOOLS, "uv could not be fetched.")
        except SetupError:
            return None  # no wheel for this platform: pip does it all
        shutil.copyfile(lock, stamp)
        return uv


# A person's own settings must not turn an install into `.venv` into something else.
QUIET_PIP = {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}


def fetch_apart(pip: Sequence[str], lock: Path, folder: Path, sentence: str) -> None:
    """Put what `lock` pins into a folder of its own, where nothing imports it by accident."""
    flags: list[str | Path] = ["--quiet", "--no-compile", *PINNED, lock, "--target", folder]
    run([*pip, "install", *flags], sentence, QUIET_PIP)


def install_lock(installer: Installer, kind: str) -> None:
    lock = LOCKS / ("runtime.lock" if kind == "run" else "dev.lock")
    with step("Python packages") as notes:
        notes.append(f"by {installer.name}")
        installer.install(
            [*PINNED, lock],
            f"The Python packages of requirements/{lock.name} could not be installed. Is a package index reachable?",
        )


def install_torch(installer: Installer) -> None:
    """The CUDA build where there is an NVIDIA driver; else a CPU build if pip finds one; else the default."""
    sentence = f"{TORCH} could not be installed. Is a package index reachable, and is there disk space (up to 8 GB)?"
    with step("PyTorch") as notes:
        if has_nvidia_driver():
            # A folder of wheels may hold the CPU build, whose version counts as newer, and as the one asked for.
            if is_cpu_build(torch_version()):
                installer.install(["--force-reinstall", "--no-deps", TORCH], sentence, with_links=False)
            installer.install([TORCH], sentence, with_links=False)
        else:
            installer.install(["--no-deps", TORCH], sentence)
            if not is_cpu_build(torch_version()):
                installer.install([TORCH], sentence)  # the default build brings libraries of its own
        notes.append(torch_version())


def is_cpu_build(version: str) -> bool:
    return version.endswith("+cpu")


def has_nvidia_driver() -> bool:
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def torch_version() -> str:
    """The version that is installed in `.venv`, or nothing. From its metadata: importing torch takes seconds."""
    code = "import importlib.metadata as m; print(*[d.version for d in m.distributions(name='torch')][:1])"
    return run([VENV_PYTHON, "-c", code], "The Python in .venv does not run.").strip()


def install_project(installer: Installer) -> None:
    """The project itself, as it lies here; setuptools came with the lock, so nothing is fetched."""
    words: list[str | Path] = ["--no-deps", "--no-build-isolation", "--editable", ROOT]
    installer.install(words, "The project itself could not be installed into .venv.")


# pip's settings about indexes on this machine, in the words of the fast installer, which does not read them: without
# this a company's mirror, or a CPU wheel of torch that lies at hand, would be missed.

# Settings of one value and of many, with the flag that says the same.
SINGLE = {"index-url": "--default-index", "keyring-provider": "--keyring-provider"}
MANY = {"extra-index-url": "--index", "find-links": "--find-links", "trusted-host": "--allow-insecure-host"}
SECTIONS = ("global", "install", ":env:")  # a later one wins, as in pip


def parse_settings(listing: str) -> dict[str, str]:
    """Settings by name from what `pip config list` prints: lines such as `global.find-links='/opt/wheels'`."""
    found: dict[str, str] = {}
    for section in SECTIONS:
        for line in listing.splitlines():
            name, _, value = line.partition("=")
            if name.startswith(section + "."):
                found[name[len(section) + 1 :].replace("_", "-")] = _unquote(value)
    return found


def _unquote(value: str) -> str:
    try:
        return str(ast.literal_eval(value))
    except (SyntaxError, ValueError):
        return value


def flags_of(settings: dict[str, str], with_links: bool = True) -> list[str]:
    """The same indexes and folders as flags. `with_links=False` leaves folders of wheels out."""
    flags = ["--no-config"]
    for name, flag in SINGLE.items():
        if settings.get(name):
            flags += [flag, settings[name]]
    for name, flag in MANY.items():
        if name == "find-links" and not with_links:
            continue
        for value in settings.get(name, "").split():
            flags += [flag, value]
    if settings.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        flags.append("--no-index")
    # pip looks at all indexes and takes the best; every file of ours is pinned by hash, so that is safe here.
    return [*flags, "--index-strategy", "unsafe-best-match"]


def environment_of(settings: dict[str, str]) -> dict[str, str]:
    """Certificates, proxy and patience as environment variables."""
    seconds = settings.get("timeout") or settings.get("default-timeout")
    patience = str(max(30, int(float(seconds)))) if seconds else ""
    changes = {"SSL_CERT_FILE": settings.get("cert"), "ALL_PROXY": settings.get("proxy"), "UV_HTTP_TIMEOUT": patience}
    return {name: value for name, value in changes.items() if value}
