"""What an administrator did to the first cluster does not keep `up` from starting again, and its token ends with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.servers import short_folder
from tests.up_process import Up, new_home
from tests.whole.runs import Yard
from trainyard.contract.base import JsonObject
from trainyard.rest.client import Client


@pytest.mark.extended
def test_it_starts_again_after_its_cluster_was_renamed_and_its_node_removed_with_fewer_nodes_and_more() -> None:
    """The node that was removed is back, one that is not started again is gone, and comes back with a larger number."""
    with short_folder("ty-again-") as folder:
        home = new_home(folder)
        with started(home, "2") as yard:
            check_nodes(yard, ["local-1", "local-2"], cluster="local")
            first = yard.up.token
            assert yard.http.patch("/clusters/local", json={"name": "lab"}).status_code == 200
            assert yard.http.delete("/nodes/local-1").status_code == 204
        with started(home, "1") as yard:
            check_nodes(yard, ["local-1"], cluster="lab")
            assert [one["name"] for one in yard.get("/clusters")["items"]] == ["lab"]
            (token,) = yard.get("/tokens")["items"]
            assert token["name"] == "this machine" and token["expires_at"] is not None
            me = httpx.get(f"{yard.up.url}/api/v1/me", headers={"Authorization": f"Bearer {first}"})
            assert me.status_code == 401, "the token of the start before is over"
        with started(home, "2") as yard:
            check_nodes(yard, ["local-1", "local-2"], cluster="lab")


@contextmanager
def started(home: Path, num_nodes: str) -> Iterator[Yard]:
    up = Up(home, NODES=num_nodes)
    try:
        up.wait_until_said("Nodes in contact")
        with Yard(up) as yard:
            yield yard
        assert up.stop() == 0
    finally:
        up.close()


def check_nodes(yard: Yard, names: list[str], *, cluster: str) -> None:
    nodes = yard.get("/nodes")["items"]
    assert [(node["name"], node["cluster"]) for node in nodes] == [(name, cluster) for name in names]
    assert all(node["is_in_contact"] and node["slots"] >= 2 for node in nodes)


def test_a_program_goes_on_when_the_machines_token_was_renewed(running_trainyard: Up) -> None:
    with Client(running_trainyard.url, "ty_old", renew=lambda: running_trainyard.token) as client:
        assert client.call("GET", "me", dict)["username"] == "owner"
        assert [node["name"] for node in client.pages("nodes", JsonObject)] == ["local-1", "local-2"]
