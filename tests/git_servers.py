"""Git servers on the loopback, for tests: sshd with a key of its own, and files over HTTP behind a token."""

from __future__ import annotations

import base64
import getpass
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil

from dashboard.up.parent_death import tethered
from tests.servers import free_port
from tests.sshd import need_sshd, sshd_program

GIT = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "protocol.file.allow=always")


class Repository:
    """A repository with a working tree, as somebody would push from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    @property
    def url(self) -> str:
        return self.folder.as_uri()

    def git(self, *words: str) -> str:
        ended = subprocess.run([*GIT, *words], cwd=self.folder, check=True, capture_output=True, text=True)
        return ended.stdout.strip()

    def commit(self, subject: str, **files: str) -> str:
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")


class Sshd:
    """A real sshd that takes one key, for the user of the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        folder.mkdir(mode=0o700)
        self._make_key("client")
        self.renew_host_key()
        (folder / "authorized").write_text((folder / "client.pub").read_text())
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def key(self) -> str:
        return (self.folder / "client").read_text()

    def url(self, path: Path) -> str:
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}{path}"

    def renew_host_key(self) -> None:
        for name in ("host", "host.pub"):
            (self.folder / name).unlink(missing_ok=True)
        self._make_key("host")

    def start(self) -> None:
        need_sshd()
        Path("/run/sshd").mkdir(exist_ok=True)
        options = {
            "HostKey": self.folder / "host",
            "AuthorizedKeysFile": self.folder / "authorized",
            "PidFile": "none",
            "UsePAM": "no",
            "StrictModes": "no",
            "PasswordAuthentication": "no",
            "ListenAddress": f"127.0.0.1:{self.port}",
        }
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                tethered([sshd_program(), "-D", "-e", "-f", "/dev/null", *words]), stdout=log, stderr=log
            )
        deadline = time.monotonic() + 20
        while not any(one.laddr.port == self.port for one in psutil.net_connections("tcp") if one.status == "LISTEN"):
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=10)

    def _make_key(self, name: str) -> None:
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)]
        subprocess.run(words, check=True)


class _Files(SimpleHTTPRequestHandler):
    """Git's files as they lie, for who knows the token."""

    token = ""

    def do_GET(self) -> None:
        wanted = "Basic " + base64.b64encode(f"git:{self.token}".encode()).decode()
        if self.token and self.headers.get("Authorization") != wanted:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def http_files(folder: Path, token: str = "") -> Iterator[str]:
    """Serve the files below the folder; yields the URL."""
    handler = type("Files", (_Files,), {"token": token})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
