from __future__ import annotations

import ssl
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import redis

from dashboard.tls import folder as tls
from tests.servers import Valkey, short_folder
from tests.workers.control import ControlledNode
from tests.workers.stream import KEY, ORDER
from trainyard.rest.trust import AUTHORITIES, SERVER
from workers.supervisor.contact import Contact
from workers.supervisor.records.shipper import Shipper
from workers.transport.desired_reader import connect


@pytest.fixture(scope="session")
def python_without_torch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with everything that this one has but torch, whose import takes a warm process seconds."""
    folder = tmp_path_factory.mktemp("bare")
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n")
    (packages / "others.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    (folder / "pyvenv.cfg").write_text(f"home = {Path(sys.base_prefix) / 'bin'}\n")
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(sys.executable)
    return folder / "bin" / "python"


@pytest.fixture
def own_environment() -> Iterator[Path]:
    """An environment that every user of the machine may read."""
    with short_folder("ty-env-") as folder:
        folder.chmod(0o755)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        yield folder


@pytest.fixture
def home() -> Iterator[Path]:
    with short_folder("ty-node-") as folder:
        yield folder


@pytest.fixture(scope="session")
def own_valkey() -> Iterator[Valkey]:
    """A server that no test empties or kills."""
    with short_folder("ty-calm-") as folder:
        server = Valkey(folder)
        server.start()
        yield server
        server.stop()


@pytest.fixture
def tls_files(tmp_path: Path) -> Path:
    """The files of an authority that no system knows."""
    tls.begin(tmp_path / "tls", ["127.0.0.1"], datetime.now(UTC))
    return tmp_path / "tls"


@pytest.fixture
def tls_server(tls_files: Path) -> Iterator[str]:
    """A server with a certificate of that authority; it answers with the authorities that there are."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (tls_files / AUTHORITIES).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls_files / SERVER)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as serving:
        serving.socket = context.wrap_socket(serving.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=serving.serve_forever, args=(0.05,))
        thread.start()
        yield f"https://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


@contextmanager
def started(name: str, server: Valkey) -> Iterator[ControlledNode]:
    with short_folder("ty-node-") as folder:
        node = ControlledNode(folder, server.url, name=name)
        node.start()
        yield node
        node.close()


@pytest.fixture(scope="session")
def shared_node(own_valkey: Valkey) -> Iterator[ControlledNode]:
    with started("calm", own_valkey) as node:
        yield node


@pytest.fixture(scope="session")
def second_shared_node(own_valkey: Valkey) -> Iterator[ControlledNode]:
    with started("second", own_valkey) as node:
        yield node


@pytest.fixture
def calm_node(shared_node: ControlledNode) -> Iterator[ControlledNode]:
    """A node worker that all tests share which do it no harm: to start one with torch takes seconds of CPU time."""
    shared_node.check_alive()
    yield shared_node
    shared_node.forget()


@pytest.fixture
def two_nodes(calm_node: ControlledNode, second_shared_node: ControlledNode) -> Iterator[list[ControlledNode]]:
    """As ``calm_node``, and another."""
    second_shared_node.check_alive()
    yield [calm_node, second_shared_node]
    second_shared_node.forget()


@pytest.fixture
def bare_node(home: Path, valkey: Valkey, python_without_torch: Path) -> Iterator[ControlledNode]:
    """A node worker of the test's own, to be killed at will, on a machine without torch: it is there sooner."""
    node = ControlledNode(home, valkey.url, python=python_without_torch)
    node.start()
    yield node
    node.close()


@pytest.fixture
def client(valkey: Valkey) -> Iterator[redis.Redis]:
    client = connect(valkey.url)
    yield client
    client.close()


@pytest.fixture
def contact(client: redis.Redis) -> Contact:
    return Contact(client, KEY, ORDER)


@pytest.fixture
def shipper(client: redis.Redis, contact: Contact, tmp_path: Path) -> Shipper:
    return Shipper(client, KEY, ORDER, tmp_path, contact)
