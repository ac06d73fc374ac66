"""HTTP clients are made in one module, which knows what may go by a proxy."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("trainyard", "workers", "runs", "dashboard")
OURS = "trainyard/rest/http_clients.py"
HTTPX = {"Client", "AsyncClient", "HTTPTransport", "AsyncHTTPTransport", "stream", "request",
         "get", "post", "put", "patch", "delete", "head", "options"}  # fmt: skip
OTHERS = {"requests", "aiohttp", "urllib.request", "urllib3", "http.client", "httpcore", "websockets.sync.client",
          "websockets.asyncio.client", "pycurl"}  # fmt: skip
ANY = re.compile(
    "|".join({"import httpx", "from httpx", *(f"(import|from) {one.partition('.')[0]}" for one in OTHERS)})
)
# The terminal's socket, which goes by no proxy; settings of a client that fsspec makes; the types of errors.
EXCUSED = {
    "trainyard/rest/session.py": "websockets",
    "workers/training/data/fetching/fetch.py": "aiohttp",
    "runs/engines/kubernetes/api.py": "urllib3",
    "dashboard/pages/account/provider.py": "requests",
}


def test_http_clients_are_made_in_one_module() -> None:
    files = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    found = [
        f"{name}:{line}: {words}"
        for path in files
        if (name := str(path.relative_to(ROOT))) != OURS and ANY.search(text := path.read_text())
        for line, words in clients(ast.parse(text), EXCUSED.get(name, ""))
    ]
    assert found == []


def test_the_check_is_checked() -> None:
    source = (
        "import requests\nfrom urllib.request import urlopen\nhttpx.Client()\nwith httpx.stream('GET', url): pass\n"
        "from httpx import get\nfrom urllib import request\n"
    )
    assert sorted(line for line, _ in clients(ast.parse(source))) == [1, 2, 3, 4, 5, 6]
    assert list(clients(ast.parse("import httpx\nhttpx.Timeout(1)\nclient.get('/')\nimport urllib.parse\n"))) == []


def clients(tree: ast.Module, excused: str = "-") -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [str(node.module), *(f"{node.module}.{one.name}" for one in node.names)]
        else:
            names = []
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in HTTPX
        taken = {f"httpx.{one}" for one in HTTPX}.union(OTHERS) & set(names)
        taken |= {name for name in names if name.split(".")[0] in OTHERS}
        if (is_call and ast.unparse(node.func.value) == "httpx") or any(
            name.split(".")[0] != excused for name in taken
        ):
            yield node.lineno, ast.unparse(node)[:80]
