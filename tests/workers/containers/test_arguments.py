"""The words with which Podman is called, without a Podman."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from trainyard.contract.orders import Order
from workers.containers.arguments import is_based_on_registry, run_words
from workers.containers.documents import ContainerPlan, ContainerRuntime, ImagePlan
from workers.containers.variables import SeveralLines, container_variables, variables_file
from workers.environments.image_preparer import authorization_text, digest_in, registries_of, registry_of
from workers.machine.processes import Exit
from workers.sandbox.process import Sandbox
from workers.supervisor.container import devices_problem, filled, visible_devices

PLAN = ContainerPlan(
    runtime=ContainerRuntime(program="/usr/bin/podman", oci="/usr/sbin/runc"), name="trainyard-a-0", image="1f",
    attempt="a", folder="/home/a", home="/home", workdir="/home/a/code", user=1_900_000_001, holder=77,
    own=("/home/a/code",), shown=("/home/a", "/data,x"), shared_memory="/dev/shm/trainyard-a",
)  # fmt: skip
DIGEST, OTHER = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"


def words(**changes: object) -> str:
    found = run_words(msgspec.structs.replace(PLAN, **changes), ["python3", "x; rm -rf /"], variables="/proc/self/fd/3")
    assert found[-3:] == ["1f", "python3", "x; rm -rf /"], "a list, and no shell"
    return " ".join(found[:-3])


def test_a_container_gets_no_rights_and_no_folder_but_its_own() -> None:
    found = words()
    for part in ("--security-opt no-new-privileges", "--cap-drop all", "--user 1900000001:1900000001", "--pull never"):
        assert part in found
    assert "--pid ns:/proc/77/ns/pid --ipc ns:/proc/77/ns/ipc" in found
    assert "--network host" in found
    assert found.count("--mount") == 4
    assert "type=bind,source=/home/a/code,target=/home/a/code,ro=false" in found
    assert 'type=bind,"source=/data,x","target=/data,x",ro=true' in found
    assert "target=/dev/shm" in found


def test_limits_are_those_of_the_attempts_group_or_podmans() -> None:
    assert "--memory 1024 --memory-swap 1024" in words(memory_bytes=1024)
    joins = ContainerRuntime(program="p", joins_groups=True)
    assert "--cgroups disabled" in words(memory_bytes=1024, cgroup="/group", runtime=joins)
    assert "--cgroup-parent /group" in words(memory_bytes=1024, cgroup="/group")
    assert "--network ns:/proc/77/ns/net" in words(has_own_network=True)


def test_values_travel_in_memory_and_those_of_the_machine_stay_outside() -> None:
    assert container_variables({"PATH": "/bin", "A": "1", "SSL_CERT_FILE": "/x"}, {"SSL_CERT_FILE": "/x"}) == {
        "A": "1",
        "SSL_CERT_FILE": "/x",
    }
    assert Path(variables_file({"A": "b=c d"})).read_text() == "A=b=c d\n"
    with pytest.raises(SeveralLines, match="KEY has several lines"):
        variables_file({"KEY": "a\nb"})


def test_the_digest_is_of_all_platforms_and_of_the_name_that_was_asked_for() -> None:
    known = [f"docker.io/library/python@{DIGEST}", f"docker.io/library/python@{OTHER}", f"elsewhere/python2@{OTHER}"]
    assert digest_in("python:3.12", known, OTHER) == DIGEST
    assert digest_in(f"python@{OTHER}", known, DIGEST) == OTHER
    assert digest_in("oci-archive:/x", known, OTHER) == ""


def test_credentials_go_to_the_registries_that_are_named() -> None:
    assert [registry_of(one) for one in ("python:3", "a/b", "r.example/a", "h:5000/a")] == [
        "docker.io", "docker.io", "r.example", "h:5000",
    ]  # fmt: skip
    plan = ImagePlan(program="p", record="r", work="w", file="FROM --platform=x r.example/a:1 AS a\nFROM a\nRUN x")
    assert registries_of(plan) == ["docker.io", "r.example"]
    assert authorization_text("me:word", ["r.example"]) == '{"auths": {"r.example": {"auth": "bWU6d29yZA=="}}}'


@pytest.mark.parametrize(
    ("text", "answer"),
    [("FROM scratch", False), ("FROM localhost/x AS a\nFROM a", False), ("# x\nfrom python:3", True)],
)
def test_a_base_of_a_registry_is_asked_for_anew(text: str, answer: bool) -> None:
    assert is_based_on_registry(text) is answer


def test_gpus_come_by_cdi_and_are_counted_from_nought(tmp_path: Path) -> None:
    order = Order(attempt="a", run="r", fence=1, slots=[2, 3], accelerator="gpu")
    assert "no CDI specification" in devices_problem(order, (tmp_path,))
    (tmp_path / "nvidia.yaml").write_text("kind: nvidia.com/gpu\n")
    assert devices_problem(order, (tmp_path,)) == ""
    assert visible_devices(order, {}) == {"CUDA_VISIBLE_DEVICES": "0,1"}


def test_a_container_has_its_folders_where_the_node_has_no_sandbox(tmp_path: Path) -> None:
    found = filled(PLAN, Sandbox(), [tmp_path / "code"], [tmp_path, tmp_path / "none"])
    assert (found.user, found.own, found.shown[0]) == (-1, (str(tmp_path / "code"),), str(tmp_path))
    assert len(found.shown) == 4, "and what tells where a rank hangs, and what follows what it sends elsewhere"
    assert (tmp_path / "code").is_dir()


def test_podmans_exit_code_is_that_of_the_program() -> None:
    assert Exit(137, None).through_shell() == (None, 9)
    assert Exit(3, None).through_shell() == (3, None)
    assert Exit(255, None).through_shell() == (255, None)
