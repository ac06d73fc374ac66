"""The process that builds an environment, in the sandbox of its project."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import short_folder
from trainyard.contract.base import encode
from trainyard.contract.machines import SandboxLevel
from workers.environments.documents import BuildPlan
from workers.sandbox.node import find_isolation
from workers.sandbox.process import ROOT

INSTALLER = '#!/bin/sh\nfor one in /proc/[0-9]*; do echo "process $one"; done\necho "temporary $TMPDIR"\nexit 1\n'


def test_a_build_sees_its_own_processes_alone() -> None:
    with short_folder("ty-build-") as folder:
        folder.chmod(0o755)
        (home := folder / "home").mkdir(0o700)
        isolation = find_isolation(home)
        if isolation.level < SandboxLevel.NAMESPACES:
            pytest.skip("this machine gives no PID namespaces")
        (folder / "conda").write_text(INSTALLER)
        (folder / "conda").chmod(0o755)
        (folder / "environment.yml").write_text("dependencies: []\n")
        store, temporary = home / "store", home / "tmp"
        plan = BuildPlan(
            kind="conda", target=str(store / "env"), code=str(folder), store=str(store), digest="d",
            temporary=str(temporary / "build"), file="environment.yml", conda=str(folder / "conda"),
            environment={"PATH": os.defpath}, sandbox=isolation.sandbox("p", own=[store, temporary]),
        )  # fmt: skip
        reader, writer = os.pipe()
        command = [sys.executable, "-m", "workers.environments.builder", str(os.getpid()), str(writer)]
        ended = subprocess.run(
            command, input=encode(plan).encode(), capture_output=True, pass_fds=[writer], cwd=ROOT, timeout=60
        )
        os.close(writer)
        os.close(reader)
        said = ended.stdout.decode().splitlines()
        assert ended.returncode == 1, "as the builder in its namespace"
        assert f"temporary {temporary / 'build'}" in said, (said, ended.stderr)
        assert 1 <= sum(line.startswith("process ") for line in said) <= 4, said
        assert not Path(temporary / "build").exists() and not (store / "work-d").exists()
