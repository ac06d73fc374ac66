"""compose.yaml: what Compose itself makes of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.up_process import ROOT

FILE = ROOT / "docs" / "deploy" / "compose.yaml"
COMPOSE = shutil.which("docker-compose")
OF_SERVER = ("migrate", "web", "control", "ingest")
needs_compose = pytest.mark.skipif(
    COMPOSE is None, reason="docker-compose is not on this machine (Debian: apt-get install docker-compose)"
)


def composed(file: Path) -> Any:
    names = {key: value for key, value in os.environ.items() if not key.endswith("_IMAGE")}
    done = subprocess.run([str(COMPOSE), "--file", str(file), "config"], capture_output=True, text=True, timeout=60,
                          env=names, check=False)  # fmt: skip
    if done.returncode:
        raise ValueError(done.stderr)
    return yaml.safe_load(done.stdout)


@needs_compose
def test_the_file_fits_the_schema_of_compose(tmp_path: Path) -> None:
    services = composed(FILE)["services"]
    assert set(services) == {"database", "valkey", *OF_SERVER}
    ready = {"condition": "service_completed_successfully"}
    for name in ("web", "control", "ingest"):
        assert services[name]["depends_on"] == {"migrate": ready} and services[name]["healthcheck"]["test"][0] == "CMD"
    waits = services["migrate"]["depends_on"]
    assert waits == {name: {"condition": "service_healthy"} for name in ("database", "valkey")}
    (tmp_path / "compose.yaml").write_text(FILE.read_text().replace("restart:", "restarts:"))
    with pytest.raises(ValueError, match="restarts"):
        composed(tmp_path / "compose.yaml")


def test_secrets_are_files_and_the_servers_containers_are_locked_down() -> None:
    document = yaml.safe_load(FILE.read_text())
    assert all(set(one) == {"file"} for one in document["secrets"].values())
    for name, service in document["services"].items():
        assert set(service["secrets"]) <= set(document["secrets"])
        words = " ".join(map(str, service.get("environment", {}))).split()
        assert all(one.endswith("_FILE") for one in words if "PASSWORD" in one or one.endswith(("_URL", "_KEY"))
                   if one != "PUBLIC_URL")  # fmt: skip
        if name in OF_SERVER:
            assert service["read_only"] and service["cap_drop"] == ["ALL"]
            assert service["security_opt"] == ["no-new-privileges:true"]
        for port in service.get("ports", []):
            assert ":-127.0.0.1:" in port, "nothing is open to others unless somebody says so"
