"""Environments that a node builds for a script, on a real node worker with a real installer."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import signal
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import Valkey, short_folder
from tests.workers.control import ControlledNode, until
from trainyard.contract.base import JsonObject
from workers.environments.store import EnvironmentPlace, EnvironmentStore
from workers.machine.processes import with_environment

pytestmark = pytest.mark.extended

SCRIPT = "import sys, line; print(line.__version__, sys.prefix)"
SLEEPY = "import time\nprint('asleep', flush=True)\ntime.sleep(600)\n"


def make_wheel(folder: Path, name: str, version: str, *, needs: str = "") -> Path:
    """Write a wheel with one module that holds its version."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    needed = f"Requires-Dist: {needs}\n" if needs else ""
    files = {
        f"{name}.py": f"__version__ = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{one},sha256={_digest(text)},{len(text)}" for one, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
    with zipfile.ZipFile(path, "w") as archive:
        for one, text in files.items():
            archive.writestr(one, text)
    return path


def make_slow_source(folder: Path) -> None:
    """Write a package whose build never ends."""
    files = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "slow"\nbackend-path = ["."]\n',
        "slow.py": SLEEPY,
        "PKG-INFO": "Metadata-Version: 2.1\nName: slow\nVersion: 1.0\n",
    }
    with tarfile.open(folder / "slow-1.0.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"slow-1.0/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture(scope="module")
def wheels() -> Iterator[Path]:
    with short_folder("ty-wheels-") as folder:
        folder.chmod(0o755)
        make_wheel(folder, "line", "1.0")
        make_wheel(folder, "line", "2.0", needs="point")
        make_wheel(folder, "point", "0.5")
        make_slow_source(folder)
        for path in folder.iterdir():
            path.chmod(0o644)
        yield folder


@pytest.fixture(scope="module")
def builder(own_valkey: Valkey, python_without_torch: Path, wheels: Path) -> Iterator[ControlledNode]:
    """A node whose packages come from a folder, as its administrator has configured pip."""
    with short_folder("ty-node-") as folder, pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
            patch.delenv(name)
        patch.setenv("PIP_CONFIG_FILE", os.devnull)
        patch.setenv("PIP_FIND_LINKS", str(wheels))
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PATH", f"{sys.prefix}/tools/bin{os.pathsep}{os.environ['PATH']}")
        node = ControlledNode(folder, own_valkey.url, name="builder", python=python_without_torch)
        node.start()
        yield node
        node.close()


def order_with(node: ControlledNode, environment: JsonObject, script: str = SCRIPT, **changes: Any) -> JsonObject:
    task = {"script": "train.py", "arguments": []}
    return node.order(script, spec={"project": "p", "task": task, "environment": environment}, **changes)


def begin(node: ControlledNode, order: JsonObject) -> None:
    node.nudge(order)
    node.say(order)


def built(node: ControlledNode) -> dict[str, EnvironmentPlace]:
    return {one.digest: one for one in EnvironmentStore(node.home).places() if one.record}


def test_a_script_finds_its_packages_and_the_next_run_starts_with_what_is_there(builder: ControlledNode) -> None:
    environment = {"requirements": ["line>=2"]}
    first, second = (order_with(builder, environment, ranks=2) for _ in range(2))
    before = built(builder)
    assert builder.run(first)["reason"] is None
    (place,) = (one for digest, one in built(builder).items() if digest not in before)
    assert builder.lines(first) == [f"2.0 {place.path}"] * 2
    log = builder.lines(first, "build")
    assert any(" + line==2.0" in line for line in log), log
    assert log[-1] == f"Environment {place.digest}, 2 packages: built"
    assert builder.run(second)["reason"] is None
    assert [line.split(": built")[0] for line in builder.lines(second, "build")] == [
        f"Environment {place.digest}, 2 packages"
    ]
    assert builder.up()["inventory"]["tools"][0] == "uv"  # type: ignore[index]


def test_what_cannot_be_resolved_ends_it_before_a_rank_starts_in_the_resolvers_words(builder: ControlledNode) -> None:
    order = order_with(builder, {"requirements": ["line>=2", "point>=1"]})
    begin(builder, order)
    report = builder.wait_for(order, "ended")
    assert (report["reason"]["code"], report["ranks"]) == ("environment", [])
    sentence = report["reason"]["sentence"]
    assert sentence.startswith("The environment cannot be built on builder: No solution found"), sentence
    assert "point" in sentence
    assert any("point" in line for line in report["reason"]["evidence"]["log"])
    builder.wait_until_shipped(order)
    assert builder.lines(order, "build")[-1] == sentence


def test_a_missing_file_is_named(builder: ControlledNode) -> None:
    order = order_with(builder, {"lock": "uv.lock"})
    begin(builder, order)
    reason = builder.wait_for(order, "ended")["reason"]
    assert reason["sentence"].endswith("environment.lock: there is no file uv.lock in the run's code.")


def test_two_runs_that_need_the_same_build_it_once(builder: ControlledNode) -> None:
    orders = [order_with(builder, {"requirements": ["line==1.0"]}) for _ in range(3)]
    for order in orders:
        begin(builder, order)
    for order in orders:
        report = builder.wait_for(order, "ready")
        builder.say(order, wanted="run", go={"master_addr": report["address"], "master_port": report["port"]})
    for order in orders:
        assert builder.wait_for(order, "ended")["reason"] is None
        builder.wait_until_shipped(order)
    logs = [builder.lines(order, "build") for order in orders]
    assert sum(any(line.startswith("$ uv venv") for line in log) for log in logs) == 1


def asleep(node: ControlledNode, order: JsonObject) -> bool:
    node.tick()
    report = node.report(order)
    return report is not None and report["preparation"].startswith("Building") and bool(builders_of(order))


def builders_of(order: JsonObject) -> list[Any]:
    return with_environment(TRAINYARD_ATTEMPT=order["attempt"])


def slow(node: ControlledNode, **changes: Any) -> JsonObject:
    order = order_with(node, {"requirements": ["slow"], **changes})
    begin(node, order)
    until(lambda: asleep(node, order))
    return order


def test_a_stop_ends_the_build_and_leaves_nothing_running(builder: ControlledNode) -> None:
    order = slow(builder)
    builder.say(order, wanted="stop", order=None)
    assert builder.wait_for(order, "ended")["reason"]["code"] == "stopped"
    assert not builders_of(order)


def test_a_build_that_takes_longer_than_its_limit_is_ended(builder: ControlledNode) -> None:
    order = order_with(builder, {"requirements": ["slow"], "limit": "3s"})
    begin(builder, order)
    reason = builder.wait_for(order, "ended")["reason"]
    assert "Building took more than 3 s and was ended" in reason["sentence"]
    assert not builders_of(order)


def test_a_killed_supervisor_takes_its_builder_along_and_the_next_run_builds(builder: ControlledNode) -> None:
    order = slow(builder)
    pid = builder.folder(order["attempt"]).lock_holder()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert builder.wait_for(order, "ended")["reason"]["code"] == "supervisor_killed"
    until(lambda: not builders_of(order))
    again = slow(builder)  # nobody holds the lock
    builder.say(again, wanted="stop", order=None)
    builder.wait_for(again, "ended")


def test_a_lock_is_installed_by_its_hashes(builder: ControlledNode, wheels: Path) -> None:
    from trainyard.bundle import pack

    wheel = (wheels / "line-1.0-py3-none-any.whl").read_bytes()
    for digest, code in ((hashlib.sha256(wheel).hexdigest(), None), ("0" * 64, "environment")):
        with short_folder("ty-code-") as folder:
            (folder / "train.py").write_text(SCRIPT)
            (folder / "all.txt").write_text(f"line==1.0 --hash=sha256:{digest}\n")
            data, sha256, _ = pack(folder)
        (builder.home / "cache" / "bundles" / sha256).write_bytes(data)
        order = order_with(builder, {"lock": "all.txt"}, code={"sha256": sha256, "size_bytes": len(data)})
        begin(builder, order)
        report = builder.wait_for(order, "ready", "ended")
        assert (report["reason"] and report["reason"]["code"]) == code, report
        builder.say(order, wanted="stop", order=None)


def test_the_nodes_packages_are_there_too_where_the_spec_wants_them(builder: ControlledNode) -> None:
    script = "import line, msgspec; print(line.__version__)"
    order = order_with(builder, {"requirements": ["line==1.0"], "inherit": True}, script)
    assert builder.run(order)["reason"] is None
    assert builder.lines(order) == ["1.0"]
