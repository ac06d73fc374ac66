"""Public generators of clients read openapi.json, and what they make of it works against a running Trainyard."""

from __future__ import annotations

import shutil
import subprocess
import urllib.request
import venv
from pathlib import Path

import pytest

from tests.browser.conftest import tiny
from tests.up_process import Up
from tests.whole.runs import Yard

pytestmark = [pytest.mark.extended, pytest.mark.timeout(900)]
PYTHON_GENERATOR, TYPESCRIPT_GENERATOR = "openapi-python-client==0.29.1", ("openapi-typescript@7.13.0", "typescript@5")
SCRIPT = """
import sys
from trainyard_client import AuthenticatedClient
from trainyard_client.api.runs import runs_api_runs_find, runs_api_runs_show, runs_api_runs_stop
from trainyard_client.models import Problem

url, token = sys.argv[1:]
client = AuthenticatedClient(url, token, raise_on_unexpected_status=True)
page = runs_api_runs_find.sync(client=client, q="generated")
run = page.items[0]
print(runs_api_runs_show.sync(run.id, client=client).name)
print(runs_api_runs_stop.sync(run.id, client=client).status)
refused = runs_api_runs_show.sync("nope", client=client)
assert isinstance(refused, Problem), refused
print(refused.status)
"""
TYPED = """
import type { paths } from "./types";
type Runs = paths["/api/v1/runs"]["get"]["responses"]["200"]["content"]["application/json"];
export const names = (page: Runs): string[] => page.items.map((run) => run.name);
// @ts-expect-error: a run has no such field
export const wrong = (page: Runs) => page.items.map((run) => run.nothing);
"""


def done(*words: str | Path, cwd: Path) -> str:
    ended = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


@pytest.fixture
def folder(running_trainyard: Up, tmp_path: Path) -> Path:
    with urllib.request.urlopen(f"{running_trainyard.url}/api/v1/openapi.json") as answer:
        (tmp_path / "openapi.json").write_bytes(answer.read())
    return tmp_path


def test_a_generated_python_client_lists_reads_and_stops_runs(running_trainyard: Up, folder: Path) -> None:
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    done(python, "-m", "pip", "install", "--quiet", PYTHON_GENERATOR, cwd=folder)
    said = done(
        python, "-m", "openapi_python_client", "generate", "--meta", "none", "--path", "openapi.json",
        "--output-path", "trainyard_client", cwd=folder,
    )  # fmt: skip
    left_out = [line for line in said.splitlines() if line.startswith("WARNING")]
    # One answer of many media types: this generator knows none of a picture's or a video's.
    assert left_out == ["WARNING parsing GET /api/v1/runs/{run_id}/media/{media_id}/file within media."], said
    with Yard(running_trainyard) as yard:
        yard.submit(tiny("generated", steps=100_000))
    out = done(python, "-c", SCRIPT, running_trainyard.url, running_trainyard.token, cwd=folder)
    name, status, refused = out.split()
    assert (name, refused) == ("generated", "404") and status in ("CANCELLED", "STOPPING")


def test_generated_typescript_compiles(folder: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("there is no npm here")
    (folder / "package.json").write_text("{}")
    done("npm", "install", "--silent", *TYPESCRIPT_GENERATOR, cwd=folder)
    done("npx", "openapi-typescript", "openapi.json", "--output", "types.ts", cwd=folder)
    (folder / "use.ts").write_text(TYPED)
    done("npx", "tsc", "--strict", "--noEmit", "use.ts", cwd=folder)
