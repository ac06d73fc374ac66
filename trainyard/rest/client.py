"""Trainyard's REST API from Python: one method a verb. What comes back is checked against its type in ``answers``."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from urllib.parse import quote

import httpx

from trainyard.contract.answers import machines as machine_answers
from trainyard.contract.answers import people as people_answers
from trainyard.contract.answers import runs as run_answers
from trainyard.contract.answers import sweeps as sweep_answers
from trainyard.contract.base import JsonObject, convert, to_builtins
from trainyard.interchange.study import Study
from trainyard.rest import answers
from trainyard.rest.connection import Connection, QueryValue, given

CHUNK_BYTES = 1_048_576
SUBMIT_S = 150.0  # the server may have to fetch a repository first


class Content:
    """Content of a file, from its start for each try. Raises OSError."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        with self._file.open("rb") as file:
            while part := file.read(CHUNK_BYTES):
                yield part


class Client(Connection):
    """The verbs, each a method. Raises ApiError and Unreachable."""

    # Runs

    def submit(self, spec: JsonObject) -> run_answers.Run:
        return self.call("POST", "runs", run_answers.Run, json=spec, timeout=SUBMIT_S)

    def plan(self, spec: JsonObject, count: int = 3) -> answers.Plans:
        """Return what a run of it would cost, and ``proposals`` that would cost less."""
        return self.call("POST", "plans", answers.Plans, params={"count": count}, json=spec)

    def runs(self, **filters: QueryValue) -> Iterator[run_answers.Run]:
        return self._pages("runs", filters, run_answers.Run)

    def run(self, run: str) -> run_answers.Run:
        return self.call("GET", f"runs/{_part(run)}", run_answers.Run)

    def run_document(self, run: str) -> run_answers.RunDocument:
        """Return all of a run."""
        return self.call("GET", f"runs/{_part(run)}", run_answers.RunDocument)

    def run_documents(self, **filters: QueryValue) -> Iterator[run_answers.RunDocument]:
        return self._pages("runs", filters, run_answers.RunDocument)

    def act(self, run: str, verb: str, body: answers.VerbBody | None = None) -> run_answers.Run:
        """Ask for ``stop``, ``pause``, ``resume``, ``restart``, ``clone``, ``continue`` or ``archive``."""
        return self.call("POST", f"runs/{_part(run)}/{verb}", run_answers.Run, json=body or {})

    def resize(self, run: str, nodes: int | None) -> run_answers.Run:
        """Have an elastic run train on that many nodes; None: on as many as its spec allows."""
        return self.call("POST", f"runs/{_part(run)}/resize", run_answers.Run, json={"nodes": nodes})

    def trace(self, run: str, steps: int, ranks: str | list[int] = "all") -> answers.Traced:
        """Have the next steps traced."""
        body = {"steps": steps, "ranks": ranks}
        return self.call("POST", f"runs/{_part(run)}/trace", answers.Traced, json=body)

    def open_app(self, run: str, port: int | None = None, rank: int = 0) -> answers.OpenedApp:
        """Return an address that opens a port of the run in a browser, once; without a port its notebook."""
        return self.call("POST", f"runs/{_part(run)}/apps", answers.OpenedApp, json={"port": port, "rank": rank})

    def rewind(self, run: str, *, to: int, first: int, last: int) -> run_answers.Run:
        """Have the run go back to step ``to``, and leave out the batches of the steps from ``first`` to ``last``."""
        body = {"to": to, "first": first, "last": last}
        return self.call("POST", f"runs/{_part(run)}/rewind", run_answers.Run, json=body)

    def exclude_node(self, run: str, node: str) -> run_answers.Run:
        """Have the run save and go on without the node of this name."""
        return self.call("POST", f"runs/{_part(run)}/exclude-node", run_answers.Run, json={"node": node})

    def import_sweep(self, sweep: JsonObject, study: Study) -> answers.MadeSweep:
        """Start a sweep whose first trials are those of the study."""
        body = {"sweep": sweep, "study": to_builtins(study)}
        return self.call("POST", "sweeps/import", answers.MadeSweep, json=body, timeout=SUBMIT_S)

    def sweep_study(self, sweep: str) -> Study:
        """Return the finished trials of a sweep."""
        return convert(self.call("GET", f"sweeps/{_part(sweep)}/study", Study, timeout=SUBMIT_S), Study)

    def sweep_importance(self, sweep: str) -> sweep_answers.Importance:
        """Return how much each field of a sweep matters."""
        return self.call("GET", f"sweeps/{_part(sweep)}/importance", sweep_answers.Importance)

    def replay(self, sweep: str, number: int) -> run_answers.Run:
        """Launch what led to a trial of a population as one run."""
        return self.call("POST", f"sweeps/{_part(sweep)}/trials/{number}/replay", run_answers.Run)

    def delete(self, run: str) -> None:
        self.call("DELETE", f"runs/{_part(run)}", answers.Empty)

    def file_list(self, run: str) -> answers.FileList:
        """Return what the run has left in its output folder, and what waits on nodes for a decision."""
        return self.call("GET", f"runs/{_part(run)}/files", answers.FileList)

    def send_leftovers(self, run: str) -> answers.FileList:
        """Let the nodes send what the run has left in their working folders; return the list as ``file_list`` does."""
        return self.call("POST", f"runs/{_part(run)}/leftovers", answers.FileList, json={"decision": "upload"})

    @contextmanager
    def file(self, run: str, path: str, first: int = 0, tag: str = "") -> Iterator[httpx.Response]:
        """Open one file of the run from the byte ``first`` on; the status is 206 where that is what comes, and 200
        where it is all of it since the file is not the one of ``tag`` any more."""
        headers = {"Range": f"bytes={first}-", "If-Range": tag} if first else {}
        headers["Accept-Encoding"] = "identity"
        place = f"runs/{_part(run)}/files/{'/'.join(map(_part, path.split('/')))}"
        with self.open(place, headers) as response:
            yield response

    def upload_bundle(self, data: bytes, project: str) -> answers.Bundle:
        headers = {"Content-Type": "application/gzip"}
        return self.call("POST", "bundles", answers.Bundle, params={"project": project}, content=data, headers=headers)

    # Sweeps

    def start_sweep(self, sweep: JsonObject) -> sweep_answers.Sweep:
        return self.call("POST", "sweeps", sweep_answers.Sweep, json=sweep, timeout=SUBMIT_S)

    def preview_sweep(self, sweep: JsonObject) -> sweep_answers.SweepPreview:
        """Return how many trials it would have, what they cost, and which cannot run."""
        return self.call("POST", "sweeps/preview", sweep_answers.SweepPreview, json=sweep, timeout=SUBMIT_S)

    def sweeps(self, **filters: QueryValue) -> Iterator[sweep_answers.SweepItem]:
        return self._pages("sweeps", filters, sweep_answers.SweepItem)

    def sweep(self, sweep: str) -> sweep_answers.Sweep:
        return self.call("GET", f"sweeps/{_part(sweep)}", sweep_answers.Sweep)

    def act_on_sweep(self, sweep: str, verb: str) -> sweep_answers.Sweep:
        """Ask for ``stop``, ``pause`` or ``resume``."""
        return self.call("POST", f"sweeps/{_part(sweep)}/{verb}", sweep_answers.Sweep, json={})

    def add_trial(self, sweep: str, parameters: JsonObject) -> sweep_answers.Sweep:
        return self.call("POST", f"sweeps/{_part(sweep)}/trials", sweep_answers.Sweep, json={"parameters": parameters})

    def promote_trial(self, sweep: str, number: int) -> sweep_answers.Sweep:
        return self.call("POST", f"sweeps/{_part(sweep)}/trials/{number}/promote", sweep_answers.Sweep, json={})

    def launch_trial(self, sweep: str, number: int | None = None, seeds: int = 3) -> sweep_answers.Launched:
        """Launch a trial's parameters (None: the best one's) as so many runs with different seeds."""
        body = {"number": number, "seeds": seeds}
        return self.call("POST", f"sweeps/{_part(sweep)}/launch", sweep_answers.Launched, json=body)

    # Runs that were logged outside of Trainyard

    def send_local_run(self, local_id: str, document: answers.LocalRunBody) -> answers.LocalRun:
        """Make or find the run of a local id; return ``run`` and the ``watermarks`` of its processes."""
        return self.call("PUT", f"runs/local/{_part(local_id)}", answers.LocalRun, json=document)

    def send_frames(self, run: str, data: bytes) -> answers.Watermarks:
        """Send frames of spools, byte for byte. They are numbered: a repeat changes nothing."""
        headers = {"Content-Type": "application/octet-stream"}
        return self.call(
            "POST", f"runs/{_part(run)}/frames", answers.Watermarks, content=data, headers=headers, is_numbered=True
        )

    def send_file(self, run: str, path: str, file: Path) -> None:
        """Keep a file with a run that was logged outside of Trainyard, in the place of one of that path.

        Raises OSError where it cannot be read."""
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(file.stat().st_size)}
        place = f"runs/{_part(run)}/files/{quote(path)}"
        self.call("PUT", place, answers.Empty, content=Content(file), headers=headers, timeout=SUBMIT_S)

    # Records of a run

    def series(self, run: str) -> Iterator[answers.Series]:
        return self._pages(f"runs/{_part(run)}/series", {}, answers.Series)

    def series_csv(self, run: str, **query: QueryValue) -> Iterator[str]:
        """Yield every point as CSV, as it comes: in parts that may end in the middle of a line."""
        return self._texts(f"runs/{_part(run)}/series.csv", query)

    def series_arrow(self, runs: Sequence[str], **query: QueryValue) -> bytes:
        """Return every point of at most 100 runs as an Arrow IPC stream, a row for each stretch of a series."""
        return self._whole("series.arrow", {**query, "run": list(runs)})

    def media(self, run: str) -> Iterator[answers.MediaName]:
        return self._pages(f"runs/{_part(run)}/media", {}, answers.MediaName)

    def media_steps(self, run: str, name: str, labels: dict[str, str]) -> answers.MediaSteps:
        query = {"name": name, "labels": json.dumps(labels)}
        return self.call("GET", f"runs/{_part(run)}/media/steps", answers.MediaSteps, params=query)

    def medium(self, run: str, medium: int) -> answers.Medium:
        return self.call("GET", f"runs/{_part(run)}/media/{medium}", answers.Medium)

    def medium_file(self, run: str, medium: int) -> bytes:
        return self._whole(f"runs/{_part(run)}/media/{medium}/file", {})

    def attempts(self, run: str) -> Iterator[answers.Attempt]:
        return self._pages(f"runs/{_part(run)}/attempts", {}, answers.Attempt)

    def checkpoints(self, run: str) -> Iterator[people_answers.Checkpoint]:
        return self._pages(f"runs/{_part(run)}/checkpoints", {}, people_answers.Checkpoint)

    def logs(self, run: str, **query: QueryValue) -> answers.LogPage:
        return self.call("GET", f"runs/{_part(run)}/logs", answers.LogPage, params=given(query))

    def search_logs(self, run: str, **query: QueryValue) -> answers.FoundLines:
        return self.call("GET", f"runs/{_part(run)}/logs/search", answers.FoundLines, params=given(query))

    def log_line(self, run: str, line: str) -> answers.LogLine:
        """Return one line, whole."""
        return self.call("GET", f"runs/{_part(run)}/logs/line", answers.LogLine, params={"id": line})

    # Data by name

    def datasets(self, **filters: QueryValue) -> Iterator[people_answers.Dataset]:
        return self._pages("datasets", filters, people_answers.Dataset)

    def dataset(self, dataset: str) -> answers.DatasetWithFacts:
        return self.call("GET", f"datasets/{_part(dataset)}", answers.DatasetWithFacts)

    def add_dataset(self, document: answers.DatasetBody) -> answers.DatasetWithFacts:
        return self.call("POST", "datasets", answers.DatasetWithFacts, json=document)

    def check_dataset(self, dataset: str) -> answers.DatasetWithFacts:
        return self.call("POST", f"datasets/{_part(dataset)}/check", answers.DatasetWithFacts, json={})

    def delete_dataset(self, dataset: str) -> None:
        self.call("DELETE", f"datasets/{_part(dataset)}", answers.Empty)

    # Clusters and nodes

    def clusters(self) -> Iterator[machine_answers.Cluster]:
        return self._pages("clusters", {}, machine_answers.Cluster)

    def nodes(self, **filters: QueryValue) -> Iterator[machine_answers.Node]:
        return self._pages("nodes", filters, machine_answers.Node)

    def act_on_node(self, node: str, verb: str) -> machine_answers.Node:
        return self.call("POST", f"nodes/{_part(node)}/{verb}", machine_answers.Node, json={})

    def check_cluster(self, cluster: str) -> machine_answers.Preflight:
        """Have the cluster's nodes checked; ``preflight`` returns what they found once they have."""
        return self.call("POST", f"clusters/{_part(cluster)}/preflight", machine_answers.Preflight, json={})

    def check_run(self, run: str) -> machine_answers.Preflight:
        """Have the nodes of the run's newest attempt checked."""
        return self.call("POST", f"runs/{_part(run)}/preflight", machine_answers.Preflight, json={})

    def preflights(self, cluster: str) -> Iterator[machine_answers.Preflight]:
        """Yield the preflights of a cluster that somebody asked for, the newest first."""
        return self._pages(f"clusters/{_part(cluster)}/preflights", {}, machine_answers.Preflight)

    def create_token(self, name: str, expires_at: str | None = None) -> answers.NewToken:
        return self.call("POST", "tokens", answers.NewToken, json={"name": name, "expires_at": expires_at})

    def secrets(self, project: str | None) -> Iterator[people_answers.Secret]:
        """Yield the secrets of a project, or without one our own: everything but their values."""
        return self._pages(_secrets_of(project), {}, people_answers.Secret)

    def set_secret(self, name: str, value: str, project: str | None) -> None:
        self.call("PUT", f"{_secrets_of(project)}/{_part(name)}", answers.Empty, json={"value": value})

    def delete_secret(self, name: str, project: str | None) -> None:
        self.call("DELETE", f"{_secrets_of(project)}/{_part(name)}", answers.Empty)

    def rotate_secrets_key(self) -> people_answers.Rotated:
        return self.call("POST", "secrets/rotate-key", people_answers.Rotated, json={}, timeout=SUBMIT_S)

    def audit(self, limit: int, **filters: QueryValue) -> list[people_answers.AuditRow]:
        """Return the newest acts."""
        return list(islice(self._pages("audit", {**filters, "limit": min(limit, 200)}, people_answers.AuditRow), limit))

    def verify_audit(self) -> people_answers.Verdict:
        return self.call("GET", "audit/verify", people_answers.Verdict, timeout=SUBMIT_S)

    def export_audit(self, form: str, **filters: QueryValue) -> Iterator[str]:
        """Yield the export as it comes: in parts that may end in the middle of a line."""
        return self._texts("audit/export", {**filters, "format": form})

    def projects(self) -> Iterator[answers.Project]:
        return self._pages("projects", {}, answers.Project)

    def me(self) -> answers.Me:
        return self.call("GET", "me", answers.Me)


def _secrets_of(project: str | None) -> str:
    return f"projects/{_part(project)}/secrets" if project else "me/secrets"


def _part(text: str) -> str:
    """Return ``text`` as one part of a path: an id that somebody typed must not become another route."""
    return quote(text, safe="")
