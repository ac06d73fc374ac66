"""A machine whose environment names a company's proxies, which reach neither the loopback nor the server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import short_folder
from tests.up_process import OURS, ROOT, Up, new_home

PROXIES = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy"), "http://127.0.0.1:1"),
    **{"ALL_PROXY": "socks5://127.0.0.1:1", "NO_PROXY": "", "no_proxy": ""},
}
SCRIPT = """
import os, urllib.request, trainyard
health = urllib.request.urlopen(os.environ["ASKED"] + "/api/v1/health", timeout=10)  # a library's own client
trainyard.init().log({"status": health.status}, step=1)
"""


@pytest.mark.slow
def test_a_new_home_comes_up_and_runs_a_script_with_proxies_that_reach_nobody(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    with short_folder("ty-proxy-") as folder:
        up = Up(new_home(folder), NODES="2", **PROXIES)
        try:
            up.wait_until_said("Nodes in contact")
            environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
            spec = {"name": "proxies", "resources": {"nodes": 2},
                    "task": {"script": "train.py", "code": ".", "environment": {"ASKED": up.url}}}  # fmt: skip
            (tmp_path / "spec.yaml").write_text(json.dumps(spec))
            words = ["submit", str(tmp_path / "spec.yaml"), "--wait"]
            done = subprocess.run(
                [sys.executable, "-m", "trainyard", *words], cwd=ROOT, capture_output=True, text=True, check=False,
                env={**environment, **PROXIES, "TRAINYARD_HOME": str(up.home)}, timeout=120,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
        finally:
            up.close()
