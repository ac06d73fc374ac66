"""What an administrator did to the first cluster does not keep `up` from starting again, and its token ends with it."""

from __future__ import annotations

import httpx

from tests.servers import short_folder
from tests.up_process import Up, new_home
from tests.whole.runs import Yard
from trainyard.rest.client import Client


def test_it_starts_again_after_its_cluster_was_renamed_and_its_node_removed() -> None:
    with short_folder("ty-again-") as folder:
        home = new_home(folder)
        up = Up(home, NODES="1")
        try:
            up.wait_until_said("Nodes in contact")
            first = up.token
            with Yard(up) as yard:
                assert yard.http.patch("/clusters/local", json={"name": "lab"}).status_code == 200
                assert yard.http.delete("/nodes/local-1").status_code == 204
            assert up.stop() == 0
            up.close()
            up = Up(home, NODES="1")
            up.wait_until_said("Nodes in contact")
            with Yard(up) as yard:
                (node,) = yard.get("/nodes")["items"]
                assert (node["name"], node["cluster"], node["is_in_contact"]) == ("local-1", "lab", True)
                assert [one["name"] for one in yard.get("/clusters")["items"]] == ["lab"]
                (token,) = yard.get("/tokens")["items"]
                assert token["name"] == "this machine" and token["expires_at"] is not None
            me = httpx.get(f"{up.url}/api/v1/me", headers={"Authorization": f"Bearer {first}"})
            assert me.status_code == 401, "the token of the start before is over"
        finally:
            up.close()


def test_a_node_that_is_not_started_again_is_gone_and_comes_back_with_a_larger_number() -> None:
    with short_folder("ty-fewer-") as folder:
        home = new_home(folder)
        for number, expected in (("2", ["local-1", "local-2"]), ("1", ["local-1"]), ("2", ["local-1", "local-2"])):
            up = Up(home, NODES=number)
            try:
                up.wait_until_said("Nodes in contact")
                with Yard(up) as yard:
                    nodes = yard.get("/nodes")["items"]
                    assert [node["name"] for node in nodes] == expected
                    assert all(node["is_in_contact"] and node["slots"] >= 2 for node in nodes)
                assert up.stop() == 0
            finally:
                up.close()


def test_a_program_goes_on_when_the_machines_token_was_renewed(running_trainyard: Up) -> None:
    with Client(running_trainyard.url, "ty_old", renew=lambda: running_trainyard.token) as client:
        assert client.me()["username"] == "owner"
        assert [node["name"] for node in client.nodes()] == ["local-1", "local-2"]
