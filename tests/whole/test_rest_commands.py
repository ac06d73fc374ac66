"""Each operation of docs/rest_*.md, with the example that stands there, against a running Trainyard."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.load.planting import plant_points
from tests.printed_pages.rest import PAGES
from tests.up_process import ROOT
from tests.whole.runs import FINAL, Document, Yard, example
from trainyard.bundle import pack

# What the state of the run in these commands does not allow, who or what is not there, what only a node can sign.
REFUSED = {
    "POST /runs/{run_id}/stop": 409,
    "POST /runs/{run_id}/frames": 409,
    "PUT /runs/{run_id}/files/{path}": 409,
    "POST /runs/{run_id}/restart": 409,
    "POST /runs/{run_id}/trace": 409,
    "POST /runs/{run_id}/apps": 409,
    "POST /runs/{run_id}/give-up": 409,
    "POST /runs/{run_id}/pause": 409,
    "POST /runs/{run_id}/resume": 409,
    "POST /runs/{run_id}/resize": 409,
    "POST /runs/{run_id}/rewind": 409,
    "POST /runs/{run_id}/exclude-node": 409,
    "POST /sweeps/{sweep_id}/trials/{number}/promote": 409,  # it was not pruned
    "PUT /projects/{project_id}/members/{username}": 404,
    "DELETE /projects/{project_id}/members/{username}": 404,
    "GET /runs/{run_id}/logs/locate": 404,  # no line of it is an error
    "GET /runs/{run_id}/media/{media_id}": 404,
    "GET /runs/{run_id}/media/{media_id}/file": 404,
    **dict.fromkeys(("GET /share", "POST /share", "DELETE /share/{share_id}"), 404),  # they name no run of this server
    "POST /notices/rules": 422,  # nothing is sent out of here
    "GET /notices/rules/{rule_id}": 404,
    "PATCH /notices/rules/{rule_id}": 404,
    "DELETE /notices/rules/{rule_id}": 404,
    "POST /notices/test": 404,  # it names no rule
    "DELETE /tokens": 404,  # it names a person whom nobody made
    "POST /tokens": 403,  # the token that asks for it ends sooner
    "POST /me/erase": 403,  # a token does not show that its person is there
    "GET /me/exports/{export_id}/file": 404,
    "POST /people/{username}/exports": 404,
    "POST /people/{username}/erase": 404,
    "PUT /projects/{project_id}/regions": 422,  # nothing says that it is there
    "POST /projects/{project_id}/encryption/destroy": 409,  # that is not the project's name
    "GET /runs/{run_id}/code": 404,  # a recipe has none from Git
    "GET /runs/{run_id}/code/diff": 404,
    "DELETE /projects/{project_id}/git-keys/{key_id}": 404,
    "GET /bundles/{sha256}": 401,
    "POST /runs/{run_id}/leftovers": 409,  # a recipe leaves none
    "PUT /node/runs/{run_id}/fences/{fence}/files/{path}": 401,
    "POST /node/runs/{run_id}/fences/{fence}/uploads": 401,
    "PUT /node/runs/{run_id}/fences/{fence}/uploads/{key}/{offset}": 401,
    "POST /node/runs/{run_id}/fences/{fence}/gained": 401,
    "POST /node/gone-runs": 401,
    "POST /node/attempts/{attempt_id}/secrets": 401,
    "POST /node/datasets/{dataset_id}/answer": 401,
}
EARLY = ("POST /projects",)  # which other pages name
# These take away what other commands name.
LATE = (
    "POST /sweeps/{sweep_id}/stop",
    "DELETE /projects/{project_id}/roles/{name}",
    "DELETE /groups/{group_id}",
    "DELETE /projects/{project_id}/service-accounts/{username}",
    "DELETE /nodes/{node_id}",
    "DELETE /clusters/{cluster_id}",
    "DELETE /datasets/{dataset_id}",
    "DELETE /jobs/{job_id}",
    "DELETE /reports/{report_id}",
    "DELETE /sweeps/{sweep_id}",
    "DELETE /runs/{run_id}",
)
# What stands for the parts of a path: here that is something which is there, or which another command makes.
PARTS = {"project_id": "vision", "cluster_id": "lab", "node_id": "gpu-1", "group_id": "research", "number": "0"}
PARTS |= {"path": "model.safetensors", "local_id": "00112233445566778899aabbccddeeff", "fence": "1", "key_id": "x"}
NAMES = {
    "/secrets": "HF_TOKEN",
    "/roles": "stopper",
    "/service-accounts": "vision.ci",
    "/members": "ada",
    "/people": "ann",
}


def commands() -> dict[str, str]:
    """Return the commands that the page describes, by heading, in an order that can be followed."""
    page = "\n".join((ROOT / "docs" / f"{name}.md").read_text() for name in PAGES)
    found = {}
    for part in re.split(r"^### (?=`)", page, flags=re.MULTILINE)[1:]:
        heading = part[1 : part.index("`", 1)]
        method, path = heading.split(" ")
        example = next(iter(re.findall(r"^Example: `(.*)`$", part, re.MULTILINE)), "")
        query, _, body = example.partition(" ") if example.startswith("?") else ("", "", example)
        sent = ""
        if body:
            sent = f" --json {body}" if body.endswith(".json") else f" --data-binary {body}"
            sent = f" --json '{body}'" if body.startswith("{") else sent
        found[heading] = f'curl -X {method} "$URL/api/v1{filled(path)}{query}" -H "$AUTH"{sent}' + " --max-time 3" * (
            path == "/events"
        )
    others = (one for one in found if one not in (*EARLY, *LATE))
    return {heading: found[heading] for heading in [*EARLY, *others, *LATE]}


def filled(path: str) -> str:
    """Return the path with something in the place of its parts; of what only a run makes, a variable."""
    for before, name in NAMES.items():
        path = re.sub(rf"{before}/{{(name|username)}}", f"{before}/{name}", path)
    if re.search(r"/clusters/{cluster_id}/(checks|preflight)", path):
        path = path.replace("{cluster_id}", "local")  # it has nodes
    return re.sub(r"{(\w+)}", lambda part: PARTS.get(part[1], "$" + part[1].removesuffix("_id").upper()), path)


def paused_sweep(yard: Yard, sweep: Document) -> str:
    """Return a sweep that is paused once its first trial has ended, so that each of its verbs has something to do."""
    sweep_id = str(yard.post("/sweeps", sweep)["id"])

    def trials() -> list[Document]:
        found: list[Document] = yard.get(f"/sweeps/{sweep_id}")["trials"]
        return found

    yard.wait_for(trials, "no trial was launched", 60)
    yard.post(f"/sweeps/{sweep_id}/pause")
    yard.wait_for(lambda: all(one["ended_at"] for one in trials()), lambda: str(trials()), 60)
    return sweep_id


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on this machine")
def test_every_command_of_the_page_answers_as_it_says(yard: Yard, tmp_path: Path, open_folder: Path) -> None:
    spec = example("tiny-steps", steps=5, validate_every_steps=5, warmup_steps=1)
    run_id = yard.submit(spec)
    assert yard.wait_for_end(run_id)["status"] == "SUCCEEDED"
    job = yard.post("/jobs", spec)["id"]
    (tmp_path / "train.py").write_text("print('hello')\n")
    for name in ("frames.bin", "model.pt"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "code.tar.gz").write_bytes(pack(tmp_path)[0])
    (tmp_path / "hello.json").write_text(json.dumps({**spec, "name": "hello"}))
    space = {"train.learning_rate": {"low": 0.001, "high": 0.1, "log": True}}
    sweep = {"name": "page", "base": spec, "space": space, "objective": {"metric": "val/loss"}, "budget": {"trials": 2}}
    (tmp_path / "sweep.json").write_text(json.dumps(sweep))
    study = {"name": "theirs", "directions": ["minimize"]}
    (tmp_path / "import.json").write_text(json.dumps({"sweep": {**sweep, "name": "taken-over"}, "study": study}))
    token = yard.post("/tokens", {"name": "to be revoked"})["id"]
    names = {
        "URL": yard.up.url,
        "AUTH": f"Authorization: Bearer {yard.up.token}",
        "RUN": run_id,
        "JOB": job,
        "TOKEN": token,
    }
    names |= {"SHA256": "0" * 64, "MEDIA": "1", "EXPORT": "x", "KEY": "x", "OFFSET": "0", "ATTEMPT": "x"}
    names["DATASET"] = yard.post("/datasets", {"name": "page", "source": "text", "location": str(open_folder)})["id"]
    names["REPORT"] = yard.post("/reports", {"project": "default", "title": "page"})["id"]
    names["SWEEP"] = paused_sweep(yard, sweep)
    names["OTHER"] = plant_points(yard.http, "another", 5, ["train/loss"])
    wrong = {}
    for heading, command in commands().items():
        if heading == "DELETE /sweeps/{sweep_id}":
            yard.wait_for(lambda: yard.get(f"/sweeps/{names['SWEEP']}")["status"] in FINAL, "it was not stopped")
        status = call(command, names, tmp_path, yard)
        expected = REFUSED.get(heading)
        if status != expected if expected else not 200 <= status < 300:
            wrong[heading] = status, (tmp_path / "answer").read_text()[:300]
    assert not wrong
    yard.http.put("/projects/vision/encryption", json={"encrypts": False})
    for one in yard.get("/sweeps", limit=200)["items"]:
        if one["status"] not in FINAL:
            yard.post(f"/sweeps/{one['id']}/stop")
    for run in yard.get("/runs", limit=200)["items"]:  # those that the commands launched are in nobody's way
        if run["status"] not in {*FINAL, "LOST"}:  # what trains elsewhere is not ours to stop
            yard.http.post(f"/runs/{run['id']}/stop")
            yard.wait_for_end(run["id"])


def call(command: str, names: dict[str, str], folder: Path, yard: Yard) -> int:
    """Run the command in a shell, as a reader would, and return the status that came back."""
    if "join_…" in command:
        command = command.replace("join_…", yard.post("/clusters/lab/join-tokens")["token"])
    shown = command.replace("curl ", "curl -s -o answer -w '%{http_code}' ", 1)
    done = subprocess.run(
        ["bash", "-c", shown], cwd=folder, env={"PATH": "/usr/bin:/bin", **names}, capture_output=True, text=True,
        timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == (28 if "--max-time" in command else 0), (command, done.stderr)  # a stream has no end
    return int(done.stdout)
