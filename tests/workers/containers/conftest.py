"""One Podman for the tests of containers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import short_folder
from tests.workers.containers.podman_machine import PYTHON, Machine, root_archive
from workers.containers.documents import SHARED, SHARED_MEMORY


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    if shutil.which("podman") is None:
        pytest.skip("this machine has no Podman")
    if os.geteuid() != 0:
        pytest.skip("the tests of containers make images as root")
    if not Path("/usr/bin", PYTHON).exists():
        pytest.skip(f"the image is made of Debian's {PYTHON}, which is not here")
    with short_folder("ty-podman-") as folder:
        found = Machine(folder)
        if found.runtime.problem:
            pytest.skip(f"Podman runs no container here: {found.runtime.problem}")
        found.call("import", str(root_archive(folder)), "localhost/python:1")
        before = set(SHARED.glob(f"{SHARED_MEMORY}*"))
        yield found
        for left in set(SHARED.glob(f"{SHARED_MEMORY}*")) - before:  # of supervisors that a test killed
            shutil.rmtree(left)
        found.call("system", "reset", "--force")
