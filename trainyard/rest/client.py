"""Trainyard's REST API from Python: a method for each verb that several places ask for; who has one to itself asks by
``call`` and ``pages``. What comes back is checked against its type in ``answers`` or the contract's."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from trainyard.contract.answers import runs as run_answers
from trainyard.contract.answers import sweeps as sweep_answers
from trainyard.contract.base import JsonObject
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
            while data := file.read(CHUNK_BYTES):
                yield data


class Client(Connection):
    """The verbs, each a method. Raises ApiError and Unreachable."""

    # Runs

    def submit(self, spec: JsonObject) -> run_answers.Run:
        return self.call("POST", "runs", run_answers.Run, json=spec, timeout=SUBMIT_S)

    def runs(self, **filters: QueryValue) -> Iterator[run_answers.Run]:
        return self.pages("runs", run_answers.Run, **filters)

    def run(self, run: str) -> run_answers.Run:
        return self.call("GET", f"runs/{quoted(run)}", run_answers.Run)

    def run_document(self, run: str) -> run_answers.RunDocument:
        return self.call("GET", f"runs/{quoted(run)}", run_answers.RunDocument)

    def run_documents(self, **filters: QueryValue) -> Iterator[run_answers.RunDocument]:
        return self.pages("runs", run_answers.RunDocument, **filters)

    def act(self, run: str, verb: str, **body: object) -> run_answers.Run:
        """Ask for ``stop``, ``pause``, ``clone`` and so on; ``body`` is what the verb takes."""
        return self.call("POST", f"runs/{quoted(run)}/{verb}", run_answers.Run, json=body)

    def file_list(self, run: str) -> run_answers.FileList:
        """Return what the run has left in its output folder, and what waits on nodes for a decision."""
        return self.call("GET", f"runs/{quoted(run)}/files", run_answers.FileList)

    # Sweeps

    def start_sweep(self, sweep: JsonObject) -> sweep_answers.Sweep:
        return self.call("POST", "sweeps", sweep_answers.Sweep, json=sweep, timeout=SUBMIT_S)

    def sweep(self, sweep: str) -> sweep_answers.Sweep:
        return self.call("GET", f"sweeps/{quoted(sweep)}", sweep_answers.Sweep)

    def stop_sweep(self, sweep: str) -> sweep_answers.Sweep:
        return self.call("POST", f"sweeps/{quoted(sweep)}/stop", sweep_answers.Sweep, json={})

    # Runs that were logged outside of Trainyard

    def send_local_run(self, local_id: str, document: answers.LocalRunBody) -> answers.LocalRun:
        """Make or find the run of a local id; return ``run`` and the ``watermarks`` of its processes."""
        return self.call("PUT", f"runs/local/{quoted(local_id)}", answers.LocalRun, json=document)

    def send_frames(self, run: str, data: bytes) -> answers.Watermarks:
        """Send frames of spools, byte for byte. They are numbered: a repeat changes nothing."""
        headers = {"Content-Type": "application/octet-stream"}
        return self.call(
            "POST", f"runs/{quoted(run)}/frames", answers.Watermarks, content=data, headers=headers, is_numbered=True
        )

    def send_file(self, run: str, path: str, file: Path) -> None:
        """Keep a file with a run that was logged outside of Trainyard, in the place of one of that path.

        Raises OSError where it cannot be read."""
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(file.stat().st_size)}
        place = f"runs/{quoted(run)}/files/{quote(path)}"
        self.call("PUT", place, answers.Empty, content=Content(file), headers=headers, timeout=SUBMIT_S)

    # Records of a run

    def series(self, run: str) -> Iterator[run_answers.Series]:
        return self.pages(f"runs/{quoted(run)}/series", run_answers.Series)

    def series_csv(self, run: str, **query: QueryValue) -> Iterator[str]:
        """Yield every point as CSV, as ``texts`` does."""
        return self.texts(f"runs/{quoted(run)}/series.csv", **query)

    def attempts(self, run: str) -> Iterator[answers.Attempt]:
        return self.pages(f"runs/{quoted(run)}/attempts", answers.Attempt)

    def logs(self, run: str, **query: QueryValue) -> answers.LogPage:
        return self.call("GET", f"runs/{quoted(run)}/logs", answers.LogPage, params=given(query))

    # Data by name

    def dataset(self, dataset: str) -> answers.DatasetWithFacts:
        return self.call("GET", f"datasets/{quoted(dataset)}", answers.DatasetWithFacts)

    # Tokens

    def create_token(self, name: str, expires_at: str | None = None) -> answers.NewToken:
        return self.call("POST", "tokens", answers.NewToken, json={"name": name, "expires_at": expires_at})


def quoted(text: str) -> str:
    """Return ``text`` as one part of a path: an id that somebody typed must not become another route."""
    return quote(text, safe="")
