"""What `trainyard doctor --server` says of a server that runs, and of one that is broken."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dashboard.postgres_home import said
from tests.up_process import ROOT, Up, new_home


def test_a_server_that_runs_is_well(running_trainyard: Up) -> None:
    environment = {**os.environ, "TRAINYARD_HOME": str(running_trainyard.home)}
    words = [sys.executable, "-m", "dashboard.doctor", "--server", "--json"]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=100)
    found = {one["step"]: one for one in json.loads(done.stdout)}
    assert {"database", "secrets", "Valkey", "clock", "disk", "sandbox", "backup", "TLS"} <= found.keys()
    assert done.returncode == 0 and {one["state"] for one in found.values()} <= {"ok", "warning"}, done.stdout
    assert found["database"]["state"] == found["Valkey"]["state"] == "ok"


def test_a_terminal_without_the_settings_of_up_tries_the_address_that_it_serves(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    (home / "client.toml").write_text('url = "https://127.0.0.1:1"\n')
    assert "Nobody answers at 127.0.0.1:1:" in said(home, "", "-m", "dashboard.doctor")[1]
    _, words = said(home, "", "-m", "dashboard.doctor", PUBLIC_URL="https://127.0.0.2:2")
    assert "Nobody answers at 127.0.0.2:2:" in words and "127.0.0.1:1" not in words, words


@pytest.mark.extended
def test_a_key_of_the_settings_is_no_contradiction_and_none_is_made_beside_it(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    (home / "secret_key").unlink(missing_ok=True)
    _, words = said(home, "", "-m", "dashboard.doctor", "--server", SECRET_KEY="k" * 50)
    assert "ok      database" in words and "SECRET_KEY" not in words, words
    assert not (home / "secret_key").exists()


@pytest.mark.extended
def test_what_is_broken_fails_with_what_to_do(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    code, words = said(home, "", "-m", "dashboard.doctor", "--server")
    assert code == 1 and "FAILED  server      Valkey does not answer" in words, words
    assert "ok      database    It answers, and 0 migrations are missing." in words
    assert "warning backup      None was made of this home. `trainyard backup FOLDER` makes one." in words
    code, words = said(home, "", "-m", "dashboard.backup", str(tmp_path / "all.tar"))
    code, words = said(home, "", "-m", "dashboard.doctor", "--server", SECRET_KEY="another")
    assert f"ok      backup      {tmp_path / 'all.tar'} is 0 days old." in words
    assert "warning settings    SECRET_KEY is not the one in the home." in words
    code, words = said(home, "", "-m", "dashboard.doctor", "--server", EMAIL_HOST="127.0.0.1", EMAIL_PORT="1")
    assert code == 1 and "FAILED  mail        127.0.0.1:1 takes none: " in words, words
    for file in home.glob("*.sqlite3*"):
        file.unlink()
    shutil.rmtree(home / "static", ignore_errors=True)
    code, words = said(home, "", "-m", "dashboard.doctor", "--server")
    assert code == 1 and "FAILED  database" in words and "Run `trainyard migrate`." in words
    code, words = said(home, "postgresql://nobody@127.0.0.1:1/none", "-m", "dashboard.doctor", "--server")
    assert code == 1 and "FAILED  database    The database none on 127.0.0.1:1 cannot be reached" in words
    code, words = said(home, "", "-m", "dashboard.doctor", "--server", INGEST_SHARDS="2")
    assert code == 1 and "INGEST_SHARDS above 1 needs PostgreSQL" in words
