"""The wheel: built from what git tracks and from node_modules, installed and not editable, it serves whole pages; and
without its extras it is a light client that says what it lacks."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement

from dashboard.up.parent_death import tethered
from tests.servers import short_folder
from tests.up_process import OURS, Up

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(next(path for path in sys.path if path.endswith("site-packages")))
MAKEFILE = (ROOT / "Makefile").read_text()
# As pip fetches them, and as they lie on the disk. Trainyard's own wheel has the server's pages too; 1.1 MB of it are
# ECharts, 0.5 the documentation. Of the libraries 7.6 MB are Pydantic, 4.6 Pygments, 2.9 PyYAML, 0.8 websockets.
WHEEL_BYTES = (4_130_000, 10_750_000)
LIBRARY_BYTES = (6_400_000, 20_300_000)


@pytest.fixture(scope="module")
def source() -> Iterator[Path]:
    with short_folder("ty-wheel-") as folder:
        yield source_in(folder / "source")


def source_in(source: Path) -> Path:
    """Copy what the wheel is built from."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    for name in filter(None, tracked.stdout.split("\0")):
        if name.startswith(("tests/", "benchmarks/")) or not (ROOT / name).is_file():
            continue
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
    (source / "node_modules").symlink_to(ROOT / "node_modules")
    return source


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    return wheel_of(source, source.parent)


def wheel_of(source: Path, folder: Path) -> Path:
    words = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(folder)]
    subprocess.run([sys.executable, *words, str(source)], check=True, timeout=120)
    return next(folder.glob("*.whl"))


def environment_with(wheel: Path, folder: Path, packages: Path) -> Path:
    """Return the Python of a fresh environment that has the wheel, and what lies in ``packages`` beside it."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    installed = next(folder.glob("lib/python*/site-packages"))
    # Of a folder that is named in a .pth, no .pth is read: the repository's editable install is not seen.
    (installed / "others.pth").write_text(f"{packages}\n")
    words = ["-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, *words], check=True, timeout=120)
    return python


def plain_environment(**changes: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith((*OURS, "PYTHONPATH"))}
    return {**inherited, **changes}


@pytest.mark.slow
@pytest.mark.extended
def test_an_installed_wheel_serves_whole_pages(wheel: Path) -> None:
    with short_folder("ty-wheel-up-") as folder:
        python = environment_with(wheel, folder / "venv", SITE)
        where = subprocess.run([python, "-c", "import dashboard; print(dashboard.__file__)"], capture_output=True,
                               text=True, cwd=folder, env=plain_environment(), check=True).stdout  # fmt: skip
        assert where.startswith(str(folder))
        up = Up(folder / "home", command=[str(python), "-m", "trainyard", "up"], folder=folder)
        try:
            up.wait_until_ready()
            check_pages(up)
        finally:
            up.close()


@pytest.mark.slow
@pytest.mark.extended
def test_what_make_release_builds_installs_and_migrates_a_home(source: Path, wheel: Path, tmp_path: Path) -> None:
    """The source distribution makes the same wheel."""
    recipe = re.search(r"^release:.*\n(?:\t.*\n)*?\t@\$\(BIN\)/python -c \"(.*)\"", MAKEFILE, re.MULTILINE)
    assert recipe
    subprocess.run([sys.executable, "-c", recipe[1]], cwd=source, check=True, capture_output=True, timeout=300)
    [archive], [made] = (source / "dist").glob("*.tar.gz"), (source / "dist").glob("*.whl")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    assert not (unpacked / "tests").exists()
    (unpacked / "node_modules").symlink_to(ROOT / "node_modules")
    assert content(wheel_of(unpacked, tmp_path)) == content(made) == content(wheel)
    with short_folder("ty-release-") as folder:
        python = environment_with(made, folder / "venv", SITE)
        done = subprocess.run([python, "-m", "trainyard", "migrate"], capture_output=True, text=True, cwd=folder,
                              env=plain_environment(TRAINYARD_HOME=str(folder / "home")), check=False)  # fmt: skip
        assert done.returncode == 0 and "may sign in" in done.stdout, done.stderr


def content(wheel: Path) -> dict[str, int]:
    """Names and checksums of what is in a wheel, but for its own list of them."""
    with zipfile.ZipFile(wheel) as archive:
        return {one.filename: one.CRC for one in archive.infolist() if not one.filename.endswith("/RECORD")}


def check_pages(up: Up) -> None:
    with httpx.Client(base_url=up.url, timeout=30) as browser:
        page = browser.get("/sign-in/")
        assert page.status_code == 200
        parts = re.findall(r'(?:href|src)="(/static/[^"]+)"', page.text)
        styles = [part for part in parts if part.endswith(".css")]
        assert styles and any(part.endswith(".js") for part in parts)
        assert any("--tblr-" in browser.get(style).text for style in styles), "those of npm packages are in ours"
        assert {part: browser.get(part).status_code for part in parts} == dict.fromkeys(parts, 200)
        link = next(word for word in up.wait_until_said("Sign in (").split() if "/sign-in/" in word)
        home = browser.get(link, follow_redirects=True)
        if "<form" in home.text and "/sign-in/" in str(home.url):  # the link asks for a click
            token = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', home.text)[0]
            home = browser.post(str(home.url), data={"csrfmiddlewaretoken": token}, follow_redirects=True)
        assert home.status_code == 200 and "<svg" in home.text
        launch = browser.get("/launch/")
        assert launch.status_code == 200 and "hello-gpt" in launch.text


@pytest.fixture(scope="module")
def light(wheel: Path) -> Iterator[Path]:
    """The Python of an environment with the wheel and its plain dependencies alone."""
    with short_folder("ty-light-") as folder:
        packages = folder / "packages"
        for name in closure(wheel):
            for file in importlib.metadata.files(name) or []:
                if ".." not in file.parts and file.suffix != ".pyc":
                    (packages / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(SITE / file, packages / file)
        yield environment_with(wheel, folder / "venv", packages)


def closure(wheel: Path) -> set[str]:
    """The distributions that the wheel needs without its extras."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = importlib.metadata.PathDistribution(zipfile.Path(archive, name.removesuffix("METADATA"))).requires
    found: set[str] = set()
    waiting = list(metadata or [])
    while waiting:
        requirement = Requirement(waiting.pop())
        if requirement.name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found.add(requirement.name)
        waiting += importlib.metadata.requires(requirement.name) or []
    return found


def test_the_light_client_has_an_sdk_and_a_terminal(light: Path, tmp_path: Path) -> None:
    code = "import trainyard; run = trainyard.init(); run.log({'a': 1.0}, step=1); run.finish(); print('logged')"
    for words, wanted in ((["-c", code], "logged"), (["-m", "trainyard", "--help"], "submit")):
        done = subprocess.run([light, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                              env=plain_environment(), check=False)  # fmt: skip
        assert done.returncode == 0 and wanted in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("command", "extra"), [("up", "server"), ("node", "node"), ("backup", "server"), ("sign-in-link", "server")]
)
def test_a_command_says_which_extra_it_lacks(light: Path, command: str, extra: str, tmp_path: Path) -> None:
    done = subprocess.run(tethered([str(light), "-m", "trainyard", command]), cwd=tmp_path, capture_output=True,
                          text=True, timeout=60, env=plain_environment(), check=False)  # fmt: skip
    assert done.returncode == 1
    assert f"pip install 'trainyard[{extra}]'" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(("folder", "limits"), [("venv", WHEEL_BYTES), ("packages", LIBRARY_BYTES)])
def test_the_light_client_is_light(light: Path, tmp_path: Path, folder: str, limits: tuple[int, int]) -> None:
    """What pip fetches for it, as packed as wheels are, and what then lies on the disk without bytecode."""
    root = next(path for path in light.parents if path.name == "venv").with_name(folder)
    found = root.rglob("site-packages/**/*" if folder == "venv" else "*")
    files = [path for path in found if path.is_file() and path.suffix != ".pyc"]
    with zipfile.ZipFile(tmp_path / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path, path.relative_to(root))
    packed = (tmp_path / "all.zip").stat().st_size
    size = sum(path.stat().st_size for path in files)
    assert (packed < limits[0], size < limits[1]) == (True, True), f"{packed / 1e6:.2f}, {size / 1e6:.2f} MB"
