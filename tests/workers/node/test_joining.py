"""How a machine becomes a node, and the one sentence that it says where it cannot."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.servers import Valkey
from tests.workers.control import ControlledNode, until
from tests.workers.web import Site, serve_site
from trainyard.contract.base import JsonObject
from trainyard.contract.calls import JoinRequest
from trainyard.contract.seals import new_key
from workers.node.main import address_towards, find_config, main, parse
from workers.node.server_client import ServerClient, _may_follow, join
from workers.transport.node_config import CannotStart, NodeConfig, load_config, make_home, node_home, store_config
from workers.transport.trust import Trust

HERE = Path(__file__).parents[3]
Refusal = Callable[..., str]


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site() as site:
        yield site


def answer(redis_url: str, key: str) -> JsonObject:
    return {"id": "n1", "name": "one", "cluster": "local", "key": key, "redis_url": redis_url}


def start(home: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a node worker that cannot start, and return how it ended."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRAINYARD_")}
    return subprocess.run(
        [sys.executable, "-m", "workers.node", "--name", "one", "--home", str(home), *words],
        env={**kept, **environment},
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_joining_stores_what_the_server_answers_for_its_owner_only(home: Path, site: Site, valkey: Valkey) -> None:
    key = new_key()
    site.join_answer = 201, answer(valkey.url, key)
    folder = node_home(home, "one")
    make_home(folder)
    options = parse(["--join", "secret", "--server", site.url + "/", "--slots", "3"])
    config = find_config(options, "one", folder)
    assert config == NodeConfig(site.url, "n1", "one", key, valkey.url, "local")
    assert (folder / "node.toml").stat().st_mode & 0o777 == 0o600
    (body,) = site.joined
    assert (body["token"], body["name"], body["slots"], body["address"]) == ("secret", "one", 3, "127.0.0.1")
    assert body["inventory"]["cpu"]["count"] >= 1 and body["inventory"]["slots"] == 3
    # From now on neither token nor server is needed, and a token that was used up does no harm.
    assert find_config(parse([]), "one", folder) == config
    site.join_answer = 403, {"detail": "This join token was used."}
    assert find_config(options, "one", folder) == config


def test_labels_are_in_the_inventory_from_the_first_message_on(home: Path, site: Site, valkey: Valkey) -> None:
    site.join_answer = 201, answer(valkey.url, new_key())
    folder = node_home(home, "one")
    make_home(folder)
    words = ["--label", "rack=r7", "--label", "topology.kubernetes.io/zone=eu-1", "--label", "rack=r8"]
    find_config(parse(["--join", "secret", "--server", site.url, *words]), "one", folder)
    assert site.joined[0]["inventory"]["labels"] == {"rack": "r8", "topology.kubernetes.io/zone": "eu-1"}


@pytest.mark.parametrize("bad", ["rack", "=r7", "rack=", "ra ck=r7", "rack=<b>", f"rack={'r' * 64}"])
def test_a_label_that_is_none_is_refused_with_its_text(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--label", bad])
    assert f"only, not {bad[:60]!r}" in capsys.readouterr().err


def test_a_token_in_the_environment_joins_and_is_handed_on_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_JOIN", "secret")
    assert parse([]).join == "secret"
    assert "TRAINYARD_JOIN" not in os.environ


def test_a_wrong_token_is_one_sentence(home: Path, site: Site) -> None:
    """Here as a program of its own, whose imports and warnings say nothing either; below as a call."""
    site.join_answer = 403, {"detail": "No join token has this secret."}
    ended = start(home, "--join", "wrong", "--server", site.url)
    assert ended.returncode == 1
    assert ended.stderr == f"The server {site.url} refused the join token: No join token has this secret.\n"


@pytest.fixture
def refusal(home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Refusal:
    """``refusal(*words)``: the only line that a node worker writes which cannot start."""
    monkeypatch.setattr("workers.node.main.configure_logs", lambda: None)

    def refusal(*words: str, home: Path = home) -> str:
        assert main(["--name", "one", "--home", str(home), *words]) == 1
        said = capfd.readouterr()
        assert (said.out, said.err.count("\n")) == ("", 1)
        return said.err

    return refusal


def test_a_status_of_another_refusal_is_one_sentence(refusal: Refusal, site: Site) -> None:
    site.join_answer = 401, {"detail": "No join token has this secret."}
    said = refusal("--join", "wrong", "--server", site.url)
    assert said == f"The server {site.url} refused the join token: No join token has this secret.\n"


def test_a_server_that_does_not_answer_is_one_sentence(refusal: Refusal) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert refusal("--join", "token", "--server", url).startswith(f"The server {url} cannot be reached: ")


@pytest.mark.parametrize("url", ["nonsense", "http://", "http://no.such.host.invalid:80"])
def test_an_address_that_is_none_is_one_sentence(refusal: Refusal, url: str) -> None:
    assert refusal("--join", "token", "--server", url)


def test_another_server_at_that_address_is_one_sentence(refusal: Refusal, site: Site) -> None:
    site.join_answer = 201, {"hello": "world"}
    said = refusal("--join", "token", "--server", site.url)
    assert said == f"{site.url} does not answer like a Trainyard server; check the address.\n"


def test_a_home_that_cannot_be_written_is_one_sentence(refusal: Refusal, home: Path) -> None:
    (home / "file").touch()
    said = refusal("--join", "token", "--server", "http://127.0.0.1:9", home=home / "file")
    assert "is not writable" in said


def test_a_valkey_socket_of_another_machine_is_one_sentence(refusal: Refusal, home: Path) -> None:
    folder = node_home(home, "one")
    make_home(folder)
    store_config(folder, NodeConfig("http://127.0.0.1:9", "n1", "one", new_key(), "unix:///no/such.sock", "local"))
    assert "/no/such.sock, which does not exist on this machine" in refusal()


def test_a_node_that_never_joined_says_how_to(refusal: Refusal) -> None:
    assert "--join TOKEN --server URL" in refusal()


def test_a_damaged_node_toml_is_one_sentence(refusal: Refusal, home: Path) -> None:
    folder = node_home(home, "one")
    make_home(folder)
    (folder / "node.toml").write_text("server = ")
    assert refusal()


def test_secrets_with_quotes_survive_the_file(home: Path) -> None:
    folder = node_home(home, "one")
    make_home(folder)
    config = NodeConfig("http://s", "n", "one", "k", 'redis://:pa"ss\\word\u00e4@h:1/0', "c")
    store_config(folder, config)
    assert load_config(folder) == config


def test_the_address_is_that_of_the_interface_towards_the_server() -> None:
    assert address_towards("http://127.0.0.1:8000") == "127.0.0.1"


def test_an_address_that_is_given_wins_over_the_one_of_the_first_start(home: Path, site: Site, valkey: Valkey) -> None:
    """``up`` on another port with the same home starts its nodes so."""
    folder = node_home(home, "one")
    make_home(folder)
    stored = NodeConfig("http://127.0.0.1:9", "n1", "one", new_key(), valkey.url, "local")
    store_config(folder, stored)
    assert find_config(parse(["--server", site.url + "/"]), "one", folder).server == site.url
    site.join_answer = 403, {"detail": "used"}
    store_config(folder, stored)
    assert find_config(parse(["--join", "secret", "--server", site.url]), "one", folder).server == site.url
    assert load_config(folder) == NodeConfig(site.url, "n1", "one", stored.key, valkey.url, "local")


def test_a_server_that_has_moved_is_followed_where_it_says_that_it_is(home: Path, site: Site) -> None:
    site.key = new_key()
    site.gone = {"r1"}
    kept: list[str] = []
    config = NodeConfig("http://127.0.0.1:9", "n1", "one", site.key, "redis://x", "local")
    client = ServerClient(config, kept.append)
    with pytest.raises(httpx.ConnectError):
        client.gone_runs(["r1"])
    client.offer_address(site.url)
    assert client.gone_runs(["r1"]) == {"r1"}
    assert kept == [site.url]


@pytest.mark.parametrize(
    ("known", "offered", "expected"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8001", True),
        ("http://gpu-head:8000", "http://gpu-head:8001", True),
        ("http://gpu-head:8000", "http://127.0.0.1:8001", False),
        ("https://yard.example", "http://yard.example", False),
        ("http://yard.example", "https://yard.example", True),
        ("http://yard.example", "file:///etc/passwd", False),
        ("http://yard.example", "", False),
    ],
)
def test_not_every_address_means_the_same_on_another_machine(known: str, offered: str, expected: bool) -> None:
    assert _may_follow(known, offered) == expected


def test_a_node_says_why_it_cannot_prepare_an_attempt(calm_node: ControlledNode) -> None:
    order = calm_node.order(None, code={"sha256": "0" * 64, "size_bytes": 1})
    calm_node.say(order)
    trouble = until(lambda: (calm_node.up() or {}).get("troubles", {}).get(order["attempt"]))
    assert trouble.startswith("the run's code cannot be fetched from http://127.0.0.1:9: ")
    calm_node.say(order, wanted="stop")
    calm_node.wait_for(order, "ended")
    until(lambda: not (calm_node.up() or {})["troubles"])


def hang_up(listening: socket.socket) -> None:
    with listening.accept()[0] as connection:
        connection.recv(1 << 16)


def test_a_server_that_hangs_up_is_named_in_a_sentence_with_one_stop(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        hanging_up = threading.Thread(target=hang_up, args=(listening,))
        hanging_up.start()
        with pytest.raises(CannotStart, match=r"cannot be reached: .* without sending a response\.$"):
            join(f"http://127.0.0.1:{listening.getsockname()[1]}", JoinRequest(token="x", name="n"), Trust(tmp_path))
        hanging_up.join(10)
