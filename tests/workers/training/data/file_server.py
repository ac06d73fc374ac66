"""A real web server with files, some of which it refuses, keeps people waiting for, or does not get to the end of."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FileServer:
    """Answers GET and HEAD for ``files`` by their paths; for those in ``statuses`` with that status alone."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.statuses: dict[str, int] = {}
        self.silent: set[str] = set()  # …never answered
        self.cut_once: set[str] = set()  # …the first time, half of it
        self.has_versions = True
        self.has_sizes = True
        self.num_gets: Counter[str] = Counter()
        self.url = ""
        self.is_over = threading.Event()


@contextmanager
def serve_files() -> Iterator[FileServer]:
    site = FileServer()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(is_head=True)

        def do_GET(self) -> None:
            site.num_gets[self.path] += 1
            self._answer(is_head=False)

        def _answer(self, *, is_head: bool) -> None:
            path = self.path.partition("?")[0]
            if path in site.silent:
                site.is_over.wait(30)
                return
            content = site.files.get(path)
            status = site.statuses.get(path, 404 if content is None else 200)
            content = content if content is not None and status == 200 else b""
            self.send_response(status)
            if site.has_sizes:
                self.send_header("Content-Length", str(len(content)))
            if site.has_versions:
                self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.end_headers()
            if is_head:
                return
            if path in site.cut_once:
                site.cut_once.remove(path)
                content = content[: len(content) // 2]
                self.close_connection = True
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing: the test says what it expects."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        site.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield site
        finally:
            site.is_over.set()
            server.shutdown()
            thread.join()
