"""The units of systemd: as locked down as docs/deploy.md says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dashboard.http.serving import OPTIONS
from tests.up_process import ROOT

UNITS = sorted((ROOT / "docs" / "deploy").glob("*.service"))
MOST = 3.0  # of 10
ANALYZE = shutil.which("systemd-analyze")
pytestmark = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not on this machine (Debian: systemd)")


def exposure(unit: Path) -> float:
    words = [str(ANALYZE), "security", "--offline=true", str(unit)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    if found is None:
        pytest.skip(f"this systemd-analyze looks at no unit that is not loaded: {done.stderr.strip()}")
    return float(found[1])


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_is_exposed_to_little(unit: Path, tmp_path: Path) -> None:
    assert exposure(unit) < MOST
    text = re.sub(r"^(ProtectSystem|NoNewPrivileges|CapabilityBoundingSet|SystemCallFilter)=.*\n", "",
                  unit.read_text(), flags=re.MULTILINE)  # fmt: skip
    (tmp_path / unit.name).write_text(text)
    assert exposure(tmp_path / unit.name) > MOST, "it is the lines of the unit that count"


def test_each_process_has_a_unit_that_starts_it() -> None:
    starts = {line for unit in UNITS for line in unit.read_text().splitlines() if line.startswith("ExecStart=")}
    trainyard = "/opt/trainyard/bin/trainyard serve"
    words = (f"/usr/bin/env PORT=%i {trainyard} web", f"{trainyard} control", f"{trainyard} ingest --shard %i")
    assert starts == {f"ExecStart={one}" for one in words}


def test_each_web_has_its_own_port() -> None:
    """What stands in server.env would go before what a unit sets."""
    settings = (ROOT / "docs" / "deploy" / "server.env").read_text()
    assert "TRAINYARD_HOME=" in settings and not re.search(r"^(PORT|PROXY_PORT)=", settings, re.MULTILINE)
    servers = re.findall(r"server 127\.0\.0\.1:(\d+) max_fails=0; *# trainyard-web@(\d+)\n",
                         (ROOT / "docs" / "deploy" / "nginx.conf").read_text())  # fmt: skip
    assert servers == [("8000", "8000"), ("8001", "8001")]


def test_web_may_ask_the_kernel_who_is_at_the_other_end() -> None:
    """Without netlink it reads all connections of the machine for each new one, on the event loop."""
    assert "socket.AF_NETLINK" in (ROOT / "dashboard" / "http" / "own_clients.py").read_text()
    [web] = [unit for unit in UNITS if "serve web" in unit.read_text()]
    [families] = re.findall(r"^RestrictAddressFamilies=(.*)$", web.read_text(), re.MULTILINE)
    assert "AF_NETLINK" in families.split()
    assert exposure(web) < MOST


def test_a_web_is_killed_only_long_after_it_has_stopped_to_answer() -> None:
    compose = (ROOT / "docs" / "deploy" / "compose.yaml").read_text()
    limits = re.findall(r"stop_grace_period: (\d+)s", compose)
    limits += [
        limit for unit in UNITS for limit in re.findall(r"^TimeoutStopSec=(\d+)$", unit.read_text(), re.MULTILINE)
    ]
    assert len(limits) == 1 + len(UNITS)
    assert min(map(int, limits)) >= 2 * OPTIONS["timeout_graceful_shutdown"]
