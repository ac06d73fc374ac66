"""What ranks find of checkpoints in their environment, and that those of deleted runs leave the disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.workers.control import ControlledNode
from tests.workers.web import Site, serve_site
from trainyard.contract.seals import new_key
from workers.node.server_client import ServerClient
from workers.node.worker import sweep
from workers.transport.node_config import NodeConfig, checkpoints_root

SCRIPT = """
import json, os
print(json.dumps({name: os.environ[name] for name in ("TRAINYARD_CHECKPOINTS", "TRAINYARD_RESTORE")}))
"""


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site() as site:
        site.key = new_key()
        yield site


@pytest.fixture
def server(site: Site) -> ServerClient:
    return ServerClient(NodeConfig(site.url, "n1", "one", site.key, "unix:///x", "local"))


def found_by_a_rank(node: ControlledNode, **go: object) -> dict[str, str]:
    order = node.order(SCRIPT, run="thisrun", fence=3)
    node.launch(order, **go)
    node.wait_for(order, "ended")
    node.wait_until_shipped(order)
    found: dict[str, str] = json.loads(node.lines(order)[0])
    return found


def test_ranks_find_where_their_run_keeps_its_own_and_what_to_go_on_from(calm_node: ControlledNode) -> None:
    offered = [{"run": "thisrun", "step": 200, "fence": 2}, {"run": "other", "step": 50, "fence": 7}]
    root = calm_node.home / "checkpoints"
    found = found_by_a_rank(calm_node, checkpoints=offered)
    assert found["TRAINYARD_CHECKPOINTS"] == str(root / "thisrun")
    assert json.loads(found["TRAINYARD_RESTORE"]) == [
        {**offered[0], "folder": str(root / "thisrun" / "step-200.fence-2")},
        {**offered[1], "folder": str(root / "other" / "step-50.fence-7")},
    ]


def test_a_server_that_knows_nothing_of_checkpoints_starts_ranks_anew(calm_node: ControlledNode) -> None:
    assert json.loads(found_by_a_rank(calm_node)["TRAINYARD_RESTORE"]) == []


def test_a_node_keeps_them_in_its_home_unless_it_is_told_where(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TRAINYARD_CHECKPOINTS", raising=False)
    assert checkpoints_root(tmp_path) == tmp_path / "checkpoints"
    monkeypatch.setenv("TRAINYARD_CHECKPOINTS", "/shared/checkpoints")
    assert checkpoints_root(tmp_path) == Path("/shared/checkpoints")


def fill(root: Path, *runs: str) -> None:
    for run in runs:
        (root / run / "step-1.fence-1").mkdir(parents=True)
        (root / run / "step-1.fence-1" / "manifest.json").write_text("{}")


def test_what_the_server_has_deleted_goes_and_nothing_else(site: Site, server: ServerClient, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    fill(root, "deleted1", "lives2", "Not-Ours")
    (tmp_path / "elsewhere").mkdir()
    (root / "link3").symlink_to(tmp_path / "elsewhere")
    (root / "file4").write_text("x")
    site.gone = {"deleted1", "Not-Ours", "link3", "file4", "neverhere5"}
    assert sweep(root, server) == ["deleted1"]
    assert site.asked == [["deleted1", "lives2"]]
    assert {path.name for path in root.iterdir()} == {"lives2", "Not-Ours", "link3", "file4"}
    assert (tmp_path / "elsewhere").is_dir()


def test_a_server_that_answers_more_than_it_was_asked_deletes_nothing_more(
    site: Site, server: ServerClient, tmp_path: Path
) -> None:
    fill(tmp_path / "root", "lives2")
    (tmp_path / "precious").mkdir()
    site.gone, site.says_more = set(), ["../precious", "..", ""]
    assert sweep(tmp_path / "root", server) == []
    assert (tmp_path / "precious").is_dir() and (tmp_path / "root" / "lives2").is_dir()


def test_without_a_folder_nobody_is_asked(site: Site, server: ServerClient, tmp_path: Path) -> None:
    assert sweep(tmp_path / "none", server) == []
    (tmp_path / "empty").mkdir()
    assert sweep(tmp_path / "empty", server) == []
    assert site.asked == []


def test_a_server_that_is_away_leaves_all_as_it_is(site: Site, server: ServerClient, tmp_path: Path) -> None:
    fill(tmp_path, "deleted1")
    site.gone, site.failures = {"deleted1"}, 1
    with pytest.raises(httpx.HTTPStatusError):
        sweep(tmp_path, server)
    assert (tmp_path / "deleted1").is_dir()
    assert sweep(tmp_path, server) == ["deleted1"]
