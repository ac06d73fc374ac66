"""Clusters, and nodes that join, drain and leave."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from runs import actions
from runs.actions import Refused
from runs.models import Cluster, HeldSlot, JoinToken, Node
from runs.rights.access import Forbidden
from tests.cast import Cast, make_attempt, make_node, make_run
from trainyard.contract.base import convert
from trainyard.contract.limits import MAX_SLOTS
from trainyard.contract.machines import Cpu, Inventory


def secret(cast: Cast) -> str:
    return actions.new_join_token(actor=cast.owner, cluster=cast.cluster)[1]


def test_staff_make_edit_and_delete_clusters(cast: Cast) -> None:
    cluster = actions.create_cluster(actor=cast.owner, name="lab", region="eu")
    actions.edit_cluster(actor=cast.owner, cluster=cluster, name="lab-2", labels={"a": "b"})
    assert Cluster.objects.get(name="lab-2").labels == {"a": "b"}
    actions.delete_cluster(actor=cast.owner, cluster=cluster)
    assert not Cluster.objects.filter(name="lab-2").exists()


def test_a_cluster_whose_nodes_were_removed_can_be_deleted(cast: Cast) -> None:
    cluster = actions.create_cluster(actor=cast.owner, name="lab")
    actions.remove_node(actor=cast.owner, node=make_node(cluster, name="gone"))
    actions.delete_cluster(actor=cast.owner, cluster=cluster)
    assert not Cluster.objects.filter(name="lab").exists()


def test_a_taken_or_bad_name_and_a_cluster_in_use_are_refused(cast: Cast) -> None:
    with pytest.raises(Refused):
        actions.create_cluster(actor=cast.owner, name="local")
    with pytest.raises(ValidationError):
        actions.create_cluster(actor=cast.owner, name="no spaces")
    make_run(cast)
    with pytest.raises(Refused, match="runs"):
        actions.delete_cluster(actor=cast.owner, cluster=cast.cluster)
    make_node(cast.cluster)
    with pytest.raises(Refused, match="nodes"):
        actions.delete_cluster(actor=cast.owner, cluster=cast.cluster)


def test_members_without_staff_manage_no_clusters(cast: Cast) -> None:
    node = make_node(cast.cluster)
    with pytest.raises(Forbidden):
        actions.create_cluster(actor=cast.mate, name="lab")
    with pytest.raises(Forbidden):
        actions.new_join_token(actor=cast.mate, cluster=cast.cluster)
    with pytest.raises(Forbidden):
        actions.drain_node(actor=cast.mate, node=node)
    with pytest.raises(Forbidden):
        actions.remove_node(actor=cast.mate, node=node)


@pytest.mark.parametrize(
    ("slots", "inventory", "expected"),
    [
        (3, {"cpu": {"count": 8}}, 3),
        (None, {"cpu": {"count": 8}, "gpus": []}, 8),
        (None, {"cpu": {"count": 8}, "gpus": [{}, {}]}, 2),
        (None, {}, 1),
        (None, {"cpu": {}, "gpus": None}, 1),
        (None, {"cpu": {"count": 1, "machine_count": 2}}, 2),
        (None, {"cpu": {"count": 1, "machine_count": 1}}, 1),
        (None, {"cpu": {"count": 4, "machine_count": 8}}, 4),
        (None, {"cpu": {"count": 1, "machine_count": 2}, "gpus": [{}]}, 1),
    ],
)
def test_a_machine_joins_with_its_slots(cast: Cast, slots: int, inventory: dict[str, object], expected: int) -> None:
    node = actions.join_node(secret=secret(cast), name="gpu-1", slots=slots, machine=convert(inventory, Inventory))
    assert (node.slots, node.cluster, len(node.key)) == (expected, cast.cluster, 64)


def test_a_join_token_lets_one_machine_in_once(cast: Cast) -> None:
    token = secret(cast)
    actions.join_node(secret=token, name="a")
    with pytest.raises(Forbidden):
        actions.join_node(secret=token, name="b")
    with pytest.raises(Forbidden):
        actions.join_node(secret="join_wrong", name="b")
    token = secret(cast)
    JoinToken.objects.update(expires_at=timezone.now())
    with pytest.raises(Forbidden):
        actions.join_node(secret=token, name="b")
    assert Node.objects.count() == 1


def test_a_refused_join_does_not_use_the_token_up(cast: Cast) -> None:
    token = secret(cast)
    make_node(cast.cluster, "taken")
    with pytest.raises(Refused, match="in contact"):
        actions.join_node(secret=token, name="taken")
    with pytest.raises(ValidationError):
        actions.join_node(secret=token, name="../etc")
    assert actions.join_node(secret=token, name="free").name == "free"


def test_a_machine_that_was_set_up_anew_gets_a_new_key_under_its_name(cast: Cast) -> None:
    old = make_node(cast.cluster, "a", seen_at=timezone.now() - timedelta(minutes=1))
    node = actions.join_node(secret=secret(cast), name="a")
    assert node.pk == old.pk and node.key != old.key


def test_a_name_of_another_cluster_is_taken(cast: Cast) -> None:
    make_node(Cluster.objects.create(name="lab"), "a", seen_at=None)
    with pytest.raises(Refused, match="another cluster"):
        actions.join_node(secret=secret(cast), name="a")


def test_a_node_is_drained_and_enabled(cast: Cast) -> None:
    node = make_node(cast.cluster)
    assert actions.drain_node(actor=cast.owner, node=node).is_draining
    assert not actions.enable_node(actor=cast.owner, node=node).is_draining


def test_a_node_is_removed_with_its_key_unless_it_trains(cast: Cast) -> None:
    node = make_node(cast.cluster)
    key = node.key
    attempt = make_attempt(make_run(cast), [node])
    with pytest.raises(Refused):
        actions.remove_node(actor=cast.owner, node=node)
    attempt.ended_at = timezone.now()
    attempt.save()
    actions.remove_node(actor=cast.owner, node=node)
    assert node.removed_at is not None and node.key != key and not HeldSlot.objects.exists()


def test_a_removed_machine_may_join_another_cluster_under_its_old_name(cast: Cast) -> None:
    node = make_node(Cluster.objects.create(name="lab"), "a")
    actions.remove_node(actor=cast.owner, node=node)
    joined = actions.join_node(secret=secret(cast), name="a")
    assert (joined.pk, joined.cluster, joined.removed_at) == (node.pk, cast.cluster, None)


def test_the_servers_machine_stays_in_its_cluster_whatever_became_of_both(cast: Cast) -> None:
    def found() -> Cluster:
        return actions.cluster_of_this_machine(actor=cast.owner, node="local-1")

    assert found() == cast.cluster
    node = make_node(cast.cluster, "local-1")
    actions.edit_cluster(actor=cast.owner, cluster=cast.cluster, name="lab")
    assert found() == cast.cluster
    actions.remove_node(actor=cast.owner, node=node)
    assert found() == cast.cluster and Cluster.objects.count() == 1
    actions.delete_cluster(actor=cast.owner, cluster=cast.cluster)
    assert found().name == "local"
    with pytest.raises(Forbidden):
        actions.cluster_of_this_machine(actor=cast.mate, node="local-1")


@pytest.mark.parametrize("slots", [0, -1, MAX_SLOTS + 1])
def test_a_number_of_slots_that_no_node_has_is_refused(cast: Cast, slots: int) -> None:
    node = make_node(cast.cluster)
    with pytest.raises(ValidationError, match=f"from 1 to {MAX_SLOTS}; {slots} is not"):
        actions.set_slots(actor=cast.owner, node=node, slots=slots)
    assert Node.objects.get().slots == 2


def test_a_gpu_node_has_at_most_a_slot_for_each_gpu(cast: Cast) -> None:
    node = make_node(cast.cluster, inventory={"gpus": [{}, {}]})
    assert actions.set_slots(actor=cast.owner, node=node, slots=1).slots == 1
    with pytest.raises(ValidationError, match="from 1 to 2; 3 is not"):
        actions.set_slots(actor=cast.owner, node=node, slots=3)


def test_slots_that_a_run_holds_stay(cast: Cast) -> None:
    node = make_node(cast.cluster, "a", slots=4)
    make_attempt(make_run(cast), [node], ranks=2)
    with pytest.raises(Refused, match="Node a keeps at least 2 slots: a run holds slot 1 now"):
        actions.set_slots(actor=cast.owner, node=node, slots=1)
    assert actions.set_slots(actor=cast.owner, node=node, slots=2).slots == Node.objects.get().slots == 2
    with pytest.raises(Forbidden):
        actions.set_slots(actor=cast.mate, node=node, slots=8)


def test_a_machine_that_joins_again_keeps_the_slots_that_somebody_chose(cast: Cast) -> None:
    def join(slots: int | None = None, count: int = 4) -> int:
        Node.objects.update(seen_at=None)
        machine = Inventory(cpu=Cpu(count=count))
        return actions.join_node(secret=secret(cast), name="a", slots=slots, machine=machine).slots

    assert join() == 4
    actions.set_slots(actor=cast.owner, node=Node.objects.get(), slots=6)
    assert join() == 6
    assert join(slots=3) == 3
    assert join() == 3
    assert join(count=8) == 8, "another machine under this name"
    make_attempt(make_run(cast), [Node.objects.get()], ranks=2)
    assert join(slots=1) == 2, "a run still holds two"
