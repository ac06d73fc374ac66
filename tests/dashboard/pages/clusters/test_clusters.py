"""Clusters and nodes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from runs.models import Cluster, JoinToken, Node, Project, Run, User
from runs.models.access import digest_of
from runs.records.metrics.models import NodeSample
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, spec

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
MakeRun = Callable[..., Run]


def test_a_square_leads_to_the_run_that_holds_it(as_user: AsUser, cast: Cast, make_run: MakeRun) -> None:
    node = make_node(cast.cluster, "node-a")
    run = make_run(status=Status.RUNNING)
    make_attempt(run, [node], phase=Phase.RUNNING)
    text = as_user(cast.viewer).get("/nodes/").content.decode()
    assert f'href="/runs/{run.pk}/" title="slot 0: {run.name}"' in text
    assert 'title="slot 1: free"' in text and "1 of 2 busy" in text


def test_runs_of_others_hold_slots_without_a_name(as_user: AsUser, cast: Cast, make_run: MakeRun) -> None:
    node = make_node(cast.cluster)
    run = make_run(status=Status.RUNNING, project=Project.objects.create(name="other"), spec=spec(name="secret-thing"))
    make_attempt(run, [node])
    make_run(project=run.project, spec=spec(name="secret-wait"))
    text = as_user(cast.mate).get("/nodes/").content.decode()
    assert "slot 0: a run of another project" in text and "secret" not in text


def test_nodes_that_drain_or_are_silent_look_so(as_user: AsUser, cast: Cast) -> None:
    make_node(cast.cluster, is_draining=True)
    make_node(cast.cluster, seen_at=timezone.now() - timedelta(hours=1))
    text = as_user(cast.viewer).get("/nodes/").content.decode()
    assert "node-box is-draining" in text and "node-box is-away" in text and "1 out of contact" in text


def test_the_queue_says_order_needs_and_reason(as_user: AsUser, cast: Cast, make_run: MakeRun) -> None:
    make_run(reason_sentence="Waiting for 2 more GPUs <i>.")
    text = as_user(cast.viewer).get("/nodes/?fragment=clusters").content.decode()
    assert "Waiting for 2 more GPUs &lt;i&gt;." in text and "1 node × 1" in text and "<html" not in text


def test_who_is_in_no_project_sees_no_cluster(as_user: AsUser, cast: Cast) -> None:
    make_node(cast.cluster, "node-a")
    client = as_user(cast.outsider)
    assert b"no cluster that you may see" in client.get("/nodes/").content
    assert client.get("/nodes/node-a/").status_code == 404


def test_staff_add_a_node_by_a_token_that_is_shown_once(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.owner)
    text = client.post("/nodes/clusters/local/add-node/").content.decode()
    secret = text.split("--join ")[1].split()[0]
    assert JoinToken.objects.get().digest == digest_of(secret) and "trainyard node --join" in text
    assert secret not in client.get("/nodes/clusters/local/add-node/").content.decode()


def test_members_are_not_offered_to_add_nodes(as_user: AsUser, cast: Cast) -> None:
    make_node(cast.cluster, "node-a")
    assert b"Add node" not in as_user(cast.mate).get("/nodes/").content


def test_a_cluster_is_made_changed_and_deleted(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.owner)
    client.post("/nodes/clusters/new/", {"name": "lab", "region": "eu", "labels": "gpu = H200\n"})
    lab = Cluster.objects.get(name="lab")
    assert (lab.region, lab.labels) == ("eu", {"gpu": "H200"})
    assert b"gpu=H200" in client.get(f"/nodes/clusters/{lab.pk}/edit/").content
    client.post(f"/nodes/clusters/{lab.pk}/edit/", {"name": "lab-2", "region": "", "labels": ""})
    lab.refresh_from_db()
    assert (lab.name, lab.region, lab.labels) == ("lab-2", "", {})
    client.post(f"/nodes/clusters/{lab.pk}/delete/")
    assert not Cluster.objects.filter(pk=lab.pk).exists()


@pytest.mark.parametrize(("name", "words"), [("local", "already a cluster"), ("a b", "valid"), ("", "blank")])
def test_a_bad_name_is_refused_beside_the_field(as_user: AsUser, cast: Cast, name: str, words: str) -> None:
    answer = as_user(cast.owner).post("/nodes/clusters/new/", {"name": name, "region": "kept"})
    assert answer.status_code == 422 and words in answer.content.decode() and b'value="kept"' in answer.content


def test_the_page_of_a_node_has_health_history_and_the_word_on_isolation(as_user: AsUser, cast: Cast) -> None:
    health = {"cpu_percent": 12.5, "load": 1, "memory_bytes": 100, "memory_used_bytes": 99, "disk_bytes": 8,
              "disk_used_bytes": 2, "network_received_bytes_per_s": 2048, "network_sent_bytes_per_s": 0,
              "gpus": [{"index": 0, "utilization_percent": 91, "memory_bytes": 2**30, "memory_used_bytes": 2**29,
                        "temperature_c": 60, "power_w": 300.0}]}  # fmt: skip
    node = make_node(
        cast.cluster,
        "node-a",
        health=health,
        inventory={
            "hostname": "<h>",
            "gpus": [{"name": "H200"}],
            "sandbox": {"cgroup_problem": "the machine mounts none"},
        },
    )
    NodeSample.objects.bulk_create(
        NodeSample(node_id=node.pk, at=time.time() - age, health=health) for age in (60, 45, 30, 15)
    )
    text = as_user(cast.viewer).get("/nodes/node-a/").content.decode()
    for words in (
        "13 %",
        "99 %",
        "2.0 KiB/s",
        "91 %",
        "60 °C · 300 W",
        "Sandbox level 0 of 2: not kept apart",
        "No control group limits a run: the machine mounts none.",
        "&lt;h&gt;",
        'class="area"',
    ):
        assert words in text, words
    assert text.count('class="is-high"') == 1  # memory; a busy processor is no trouble


def test_a_node_that_never_spoke_has_a_page(as_user: AsUser, cast: Cast) -> None:
    make_node(cast.cluster, "node-a", seen_at=None, inventory={})
    text = as_user(cast.viewer).get("/nodes/node-a/").content.decode()
    assert "out of contact" in text and "has not said how it feels" in text


def test_an_administrator_changes_the_slots_of_a_node(as_user: AsUser, cast: Cast, make_run: MakeRun) -> None:
    node = make_node(cast.cluster, "node-a")
    assert b'name="slots"' not in as_user(cast.mate).get("/nodes/node-a/").content
    client, path = as_user(cast.owner), "/nodes/node-a/slots/"
    assert b'name="slots" type="number" min="1" max="1024" value="2"' in client.get("/nodes/node-a/").content
    answer = client.post(path, {"slots": "4"}, headers={"X-Requested-With": "fetch"})
    assert answer.json()["sentence"] == "node-a has 4 slots now." and Node.objects.get().slots == 4
    for wrong in ("", "many", "0", "9" * 30, "\u0664"):
        answer = client.post(path, {"slots": wrong}, headers={"X-Requested-With": "fetch"})
        assert answer.status_code == 422 and "from 1 to 1024" in answer.json()["sentence"]
    make_attempt(make_run(status=Status.RUNNING), [node], phase=Phase.RUNNING, ranks=2)
    assert client.post(path, {"slots": "1"}).status_code == 409 and Node.objects.get().slots == 4


def test_draining_can_be_undone_and_a_busy_node_stays(as_user: AsUser, cast: Cast, make_run: MakeRun) -> None:
    node = make_node(cast.cluster, "node-a")
    client = as_user(cast.owner)
    answer = client.post("/nodes/node-a/do/drain/", headers={"X-Requested-With": "fetch"})
    assert answer.json()["undo"] == "/nodes/node-a/do/enable/" and Node.objects.get().is_draining
    client.post("/nodes/node-a/do/enable/")
    assert not Node.objects.get().is_draining
    make_attempt(make_run(status=Status.RUNNING), [node], phase=Phase.RUNNING)
    assert client.post("/nodes/node-a/do/remove/").status_code == 409
    assert client.post("/nodes/node-a/do/explode/").status_code == 404


@pytest.mark.parametrize(
    ("level", "words"),
    [("user and namespace", "another Unix user"), ("namespace", "own view of the disk"), ("none", "can read what")],
)
def test_the_page_of_a_node_says_what_keeps_a_script_apart(as_user: AsUser, cast: Cast, level: str, words: str) -> None:
    make_node(cast.cluster, "node-a", inventory={"isolation": level})
    assert words in as_user(cast.viewer).get("/nodes/node-a/").content.decode()


def test_the_page_of_a_node_says_its_sandbox_level_its_limits_and_what_its_cluster_asks_for(
    as_user: AsUser, cast: Cast
) -> None:
    sandbox = {"level": 1, "missing": ["Level 2 needs more."], "cgroup": "/sys/fs/cgroup/ty", "memory_bytes": 2**30}
    make_node(cast.cluster, "node-a", inventory={"isolation": "user", "sandbox": sandbox})
    cast.cluster.isolation_minimum = 2
    cast.cluster.save()
    text = as_user(cast.viewer).get("/nodes/node-a/").content.decode()
    for words in ("Sandbox level 1 of 2: kept apart by user", "Level 2 needs more.", "below /sys/fs/cgroup/ty",
                  "may take 1.0 GiB of memory", "asks for level 2: it places nothing here",
                  "knows no password: the node does not say."):  # fmt: skip
        assert words in text, words


def test_the_page_of_a_node_says_whether_other_projects_reach_its_ranks_ports(as_user: AsUser, cast: Cast) -> None:
    for name, why in (("open", "bpf: Operation not permitted"), ("guarded", "")):
        sandbox = {"level": 2, "loopback_problem": why}
        make_node(cast.cluster, name, inventory={"isolation": "user and namespace", "sandbox": sandbox})
    page = as_user(cast.viewer)
    text = {name: page.get(f"/nodes/{name}/").content.decode() for name in ("open", "guarded")}
    assert "knows no password: bpf: Operation not permitted." in text["open"]
    assert "Other machines do: close the nodes" in text["guarded"] and "knows no password" not in text["guarded"]


def test_the_least_sandbox_level_of_a_cluster_is_set_by_its_form_and_level_3_is_refused_by_name(
    as_user: AsUser, cast: Cast
) -> None:
    client, path = as_user(cast.owner), f"/nodes/clusters/{cast.cluster.pk}/edit/"
    answer = client.post(path, {"name": cast.cluster.name, "isolation_minimum": "3"})
    assert answer.status_code == 422 and "level 3 is a container" in answer.content.decode()
    assert client.post(path, {"name": cast.cluster.name, "isolation_minimum": "2"}).status_code == 302
    cast.cluster.refresh_from_db()
    assert cast.cluster.isolation_minimum == 2


def test_the_order_of_a_clusters_queue_is_chosen_in_its_form(as_user: AsUser, cast: Cast) -> None:
    client, path = as_user(cast.owner), f"/nodes/clusters/{cast.cluster.pk}/edit/"
    assert '<option value="fair-share" selected>' in " ".join(client.get(path).content.decode().split())
    assert client.post(path, {"name": cast.cluster.name, "scheduling": "equal-shares"}).status_code == 302
    cast.cluster.refresh_from_db()
    assert cast.cluster.scheduling == "equal-shares"
    answer = client.post(path, {"name": cast.cluster.name, "scheduling": "mine first"})
    assert answer.status_code == 422 and "is none of fair-share, first-come, equal-shares" in answer.content.decode()


def test_the_half_life_and_the_price_of_a_slot_hour_are_fields_of_the_form(as_user: AsUser, cast: Cast) -> None:
    client, path = as_user(cast.owner), f"/nodes/clusters/{cast.cluster.pk}/edit/"
    same = {"name": cast.cluster.name, "half_life_days": "3.5", "slot_hour_price": "1.25", "spared_minutes": "7"}
    same |= {"idle_action": "off", "idle_below": "2.5", "idle_minutes": "45"}
    assert client.post(path, same).status_code == 302
    text = client.get(path).content.decode()
    assert all(f'value="{value}"' in text for value in ("3.5", "1.25", "7", "2.5", "45"))
    assert '<option value="off" selected>' in " ".join(text.split())
    for name, typed in (
        ("half_life_days", "0"), ("half_life_days", "nan"), ("half_life_days", "soon"), ("slot_hour_price", "dear"),
        ("spared_minutes", "-1"), ("spared_minutes", "nan"),
        ("slot_hour_price", "1e9"), ("spares", "many"), ("spares", "10001"),
        ("idle_below", "0"), ("idle_below", "nan"), ("idle_minutes", "0"), ("idle_minutes", "soon"),
    ):  # fmt: skip
        answer = client.post(path, {**same, name: typed})
        assert answer.status_code == 422 and f'value="{typed}"' in answer.content.decode(), name
        assert answer.content.decode().count('aria-invalid="true"') == 1, name
    assert client.post(path, {**same, "slot_hour_price": ""}).status_code == 302
    cast.cluster.refresh_from_db()
    assert (cast.cluster.half_life_days, cast.cluster.slot_hour_price) == (3.5, None)


def test_the_topology_is_a_field_of_the_form_and_labels_stand_on_the_page_of_their_node(
    as_user: AsUser, cast: Cast
) -> None:
    client, path = as_user(cast.owner), f"/nodes/clusters/{cast.cluster.pk}/edit/"
    same = {"name": cast.cluster.name, "topology": "switch, rack"}
    assert client.post(path, same).status_code == 302
    assert 'value="switch, rack"' in client.get(path).content.decode()
    refused = client.post(path, {**same, "topology": "switch, <b>"})
    assert refused.status_code == 422 and 'value="switch, &lt;b&gt;"' in refused.content.decode()
    node = make_node(cast.cluster, inventory={"labels": {"rack": "r7", "switch": "s2"}})
    assert "rack=r7" in client.get(f"/nodes/{node.name}/").content.decode()


def test_nodes_are_a_table_too(as_user: AsUser, cast: Cast, make_run: MakeRun) -> None:
    health = {"cpu_percent": 25.0, "memory_bytes": 100, "memory_used_bytes": 50}
    busy = make_node(cast.cluster, "node-a", health=health)
    make_node(cast.cluster, "node-b", is_draining=True)
    make_node(cast.cluster, "node-c", seen_at=timezone.now() - timedelta(hours=1))
    run = make_run(status=Status.RUNNING)
    make_attempt(run, [busy], phase=Phase.RUNNING)
    text = as_user(cast.viewer).get("/nodes/?view=table").content.decode()
    for words in ("1 of 2", "CPU 25 %, memory 50 %", "draining", "out of contact", f"slot 0: {run.name}"):
        assert words in text, words
    assert "Drain node-a" not in text

    def order(query: str) -> list[str]:
        text = as_user(cast.owner).get(f"/nodes/?view=table&fragment=rows&{query}").content.decode()
        return re.findall(r'aria-label="\w+ (node-\w)"', text)

    assert order("sort=state") == ["node-c", "node-b", "node-a"] and order("sort=-busy,-name")[0] == "node-a"
    assert order("q=node-b") == ["node-b"] and order(f"ids={busy.pk}.nonsense") == ["node-a"]
    assert as_user(cast.outsider).get("/nodes/?view=table&fragment=rows").content == b""
