"""Files of Git LFS: from a repository's own folder, and by its interface over HTTP from a server that tests bring."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from runs import actions
from runs.models import Run, bundle_of
from runs.records.files.paths import bundle_path
from tests.cast import Cast
from tests.git_servers import Repository
from trainyard.bundle import unpack
from trainyard.spec import SpecError

WEIGHTS = bytes(range(256)) * 40
DIGEST = hashlib.sha256(WEIGHTS).hexdigest()
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{DIGEST}\nsize {len(WEIGHTS)}\n"


@pytest.fixture
def repository(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Repository:
    settings.GIT_FILE_ROOTS = [str(tmp_path)]
    monkeypatch.setenv("TRAINYARD_DATA_HOSTS", "127.0.0.1")
    made = Repository(tmp_path / "code.git")
    (made.folder / "weights.bin").write_text(POINTER)
    made.commit("Weights", train="print(1)\n")
    made.git("update-server-info")
    return made


def submit(cast: Cast, url: str, **code: Any) -> Run:
    task = {"script": "train.py", "code": {"git": url, **code}}
    return actions.submit_run(actor=cast.mate, document={"name": "x", "task": task})


def refused(cast: Cast, url: str) -> tuple[str, str]:
    with pytest.raises(SpecError) as error:
        submit(cast, url, lfs=True)
    return error.value.errors[0]


def weights_of(run: Run, folder: Path) -> bytes:
    unpack(bundle_path(bundle_of(run)).read_bytes(), folder)
    return (folder / "weights.bin").read_bytes()


def test_files_of_git_lfs_come_from_the_repository_on_request(
    cast: Cast, repository: Repository, tmp_path: Path
) -> None:
    path, words = refused(cast, repository.url)
    assert path == "task.code.lfs" and "does not hold the file of Git LFS" in words and "git lfs fetch" in words
    place = repository.folder / ".git" / "lfs" / "objects" / DIGEST[:2] / DIGEST[2:4]
    place.mkdir(parents=True)
    (place / DIGEST).write_bytes(WEIGHTS[::-1])
    assert "gave other bytes" in refused(cast, repository.url)[1]
    (place / DIGEST).write_bytes(WEIGHTS)
    assert weights_of(submit(cast, repository.url, lfs=True), tmp_path / "out") == WEIGHTS
    with pytest.raises(SpecError, match="ask for them with lfs: true"):  # the bundle of before does not count
        submit(cast, repository.url)


class _Server(SimpleHTTPRequestHandler):
    """A repository's files, and the interface of Git LFS beside them."""

    href = ""  # what it answers for an object; its own address without it
    asked: list[dict[str, Any]]

    def do_POST(self) -> None:
        assert self.path == "/code.git/.git/info/lfs/objects/batch", self.path
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body)
        href = self.href or f"http://{self.headers['Host']}/objects/{DIGEST}"
        objects = [{**one, "actions": {"download": {"href": href}}} for one in body["objects"]]
        self._answer(json.dumps({"transfer": "basic", "objects": objects}).encode())

    def do_GET(self) -> None:
        if self.path.startswith("/objects/"):
            self._answer(WEIGHTS)
        else:
            super().do_GET()

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def lfs_server(folder: Path, href: str = "") -> Iterator[tuple[str, list[dict[str, Any]]]]:
    asked: list[dict[str, Any]] = []
    handler = type("Handler", (_Server,), {"href": href, "asked": asked})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/code.git/.git", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_files_of_git_lfs_come_by_http_once_for_each_commit(cast: Cast, repository: Repository, tmp_path: Path) -> None:
    with lfs_server(tmp_path) as (url, asked):
        assert weights_of(submit(cast, url, lfs=True), tmp_path / "out") == WEIGHTS
        submit(cast, url, lfs=True)
    assert [one["objects"] for one in asked] == [[{"oid": DIGEST, "size": len(WEIGHTS)}]]


@pytest.mark.parametrize(
    ("href", "words"),
    [
        ("http://169.254.169.254/latest/meta-data", "169.254.169.254"),
        ("file:///etc/passwd", "sends to file:///etc/passwd"),
        ("http://127.0.0.1:9/x", "does not give a file of Git LFS"),
    ],
)
def test_a_server_leads_to_no_address_that_is_not_fetched_from(
    cast: Cast, repository: Repository, tmp_path: Path, href: str, words: str
) -> None:
    with lfs_server(tmp_path, href) as (url, _):
        assert words in refused(cast, url)[1]
