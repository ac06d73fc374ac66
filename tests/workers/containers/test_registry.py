"""Images of a real registry that asks for a password, and what becomes of images that nobody used for long.
``make containers`` runs these."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Valkey, short_folder
from tests.workers.containers.podman_machine import Machine
from tests.workers.containers.registry import PASSWORD, USER, Registry
from tests.workers.control import ControlledNode
from tests.workers.web import Site, serve_site
from trainyard.contract.base import JsonObject
from trainyard.contract.calls import GivenSecret, GivenSecrets, secrets_scope
from trainyard.contract.locks import lock
from trainyard.spec.sections.container import CREDENTIALS
from workers.environments.documents import NodeTools
from workers.environments.store import EnvironmentPlace, EnvironmentRecord, EnvironmentStore, FileLock

pytestmark = [pytest.mark.extended, pytest.mark.timeout(600)]
MIB = 2**20


class Watch(threading.Thread):
    """Looks at the words of all processes, and at the modes of files with credentials below a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._folder = folder
        self._is_over = threading.Event()
        self.modes: set[str] = set()
        self.words: set[str] = set()

    def run(self) -> None:
        while not self._is_over.wait(0.01):
            for path in self._folder.glob("*/environments/*/image-*/auth.json"):
                with contextlib.suppress(FileNotFoundError):
                    self.modes.add(stat.filemode(path.stat().st_mode))
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    words = path.read_bytes()
                    if b"podman" in words:
                        self.words.add(words.decode(errors="replace"))

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.join()


@pytest.fixture(scope="module")
def registry(machine: Machine) -> Iterator[Registry]:
    with short_folder("ty-registry-") as folder:
        found = Registry(folder)
        machine.settings |= found.settings
        machine.environment |= found.settings
        try:
            machine.call("push", "--creds", f"{USER}:{PASSWORD}", "localhost/python:1", f"{found.host}/team/train:1")
            machine.call("push", "--creds", f"{USER}:{PASSWORD}", "localhost/python:1", f"{found.host}/team/train:2")
            yield found
        finally:
            found.close()


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serve_site() as one:
        yield one


@pytest.fixture(scope="module")
def node(
    machine: Machine, registry: Registry, site: Site, own_valkey: Valkey, python_without_torch: Path
) -> Iterator[ControlledNode]:
    with short_folder("ty-node-") as folder:
        found = ControlledNode(folder, own_valkey.url, name="yard", server=site.url, python=python_without_torch)
        site.key = found.key
        found.start(**machine.settings)
        yield found
        found.close()


def order_with(node: ControlledNode, site: Site, image: str, password: str, **changes: object) -> JsonObject:
    container = {"image": image, **({"credentials": "REGISTRY"} if password else {})}
    task = {"command": ["/bin/cat", "/etc/marker"], "arguments": []}
    order = node.order("", spec={"project": "p", "task": task, "environment": {"container": container}}, **changes)
    given = GivenSecrets([GivenSecret(CREDENTIALS, f"{USER}:{password}")] if password else [])
    locked = lock(node.key, secrets_scope(node.id, order["attempt"]), given).locked
    site.secrets[order["attempt"]] = (200, {"locked": locked})
    return order


def ended(node: ControlledNode, order: JsonObject) -> JsonObject:
    node.nudge(order)
    node.say(order)
    return node.wait_for(order, "ended")


def files_with(text: str, folder: Path) -> list[Path]:
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [path for path in paths if text.encode() in path.read_bytes()]


def test_an_image_is_pulled_by_tag_and_by_digest_with_a_password_that_nobody_sees(
    node: ControlledNode, site: Site, registry: Registry
) -> None:
    name = f"{registry.host}/team/train"
    with Watch(node.home.parent) as watch:
        order = order_with(node, site, f"{name}:1", PASSWORD)
        report = node.run(order)
        assert report["reason"] is None, (report["reason"], node.lines(order, "build"))
        assert node.lines(order) == ["image 1"]
        assert report["image"].startswith(f"{name}@sha256:")
        again = order_with(node, site, report["image"], PASSWORD)
        assert node.run(again)["image"] == report["image"]
        assert node.lines(again) == ["image 1"]
    pulls = [words for words in watch.words if "\0pull\0" in words]
    assert pulls and all("--authfile" in words for words in pulls)
    assert not [words for words in watch.words if PASSWORD in words]
    assert watch.modes == {"-rw-------"}
    assert not list(node.home.rglob("auth.json")), "it is there for the pull alone"
    assert not files_with(PASSWORD, node.base)
    assert not [line for one in (order, again) for line in node.lines(one, "build") if PASSWORD in line]


@pytest.mark.parametrize(
    ("reference", "password", "words"),
    [
        ("team/train:1", "wrong-password-8", "unauthorized"),
        ("team/train:1", "", "unauthorized"),
        ("team/train:none", PASSWORD, "manifest unknown"),
        ("team/nothing:1", PASSWORD, "manifest unknown|name unknown"),
        (f"team/train@sha256:{'0' * 64}", PASSWORD, "manifest unknown"),
    ],
)
def test_what_the_registry_refuses_is_said_before_a_rank_starts(
    node: ControlledNode, site: Site, registry: Registry, reference: str, password: str, words: str
) -> None:
    report = ended(node, order_with(node, site, f"{registry.host}/{reference}", password))
    assert (report["reason"]["code"], report["ranks"]) == ("environment", [])
    sentence = report["reason"]["sentence"]
    assert any(one in sentence for one in words.split("|")), sentence
    assert registry.host in sentence and (not password or password not in sentence)
    assert not list(node.home.rglob("auth.json"))


def test_a_registry_that_does_not_answer_is_named(node: ControlledNode, site: Site) -> None:
    sentence = ended(node, order_with(node, site, "127.0.0.1:9/team/train:1", PASSWORD))["reason"]["sentence"]
    assert "127.0.0.1:9" in sentence and "connection refused" in sentence


def test_an_image_of_two_tags_leaves_the_node_and_comes_again(
    machine: Machine, node: ControlledNode, site: Site, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{registry.host}/team/train"
    before = set(machine.call("images", "--quiet", "--no-trunc").split())
    reports = [node.run(order_with(node, site, f"{name}:{tag}", PASSWORD)) for tag in (1, 2)]
    assert reports[0]["image"] == reports[1]["image"]
    store = EnvironmentStore(node.home)
    records = {place.digest: record for place in store.places() if (record := place.record)}
    names = {one for record in records.values() for one in record.image_names}
    assert {f"{name}:1", f"{name}:2"} <= names, records
    for key, value in machine.environment.items():
        monkeypatch.setenv(key, value)
    store.make_room(0)
    assert not [place for place in store.places() if place.record]
    tags = machine.call("images", "--format", "{{.Repository}}:{{.Tag}}").split()
    assert "localhost/python:1" in tags, "it lay on the machine before, as another name of the same image"
    assert set(machine.call("images", "--quiet", "--no-trunc").split()) == before


@pytest.fixture
def images(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Three images, by name, that nothing else uses."""
    for key, value in machine.environment.items():
        monkeypatch.setenv(key, value)
    made = {}
    for number in (1, 2, 3):
        file = machine.folder / f"small-{number}"
        file.write_text(f"FROM scratch\nLABEL number={number}\n")
        tag = f"localhost/trainyard/small-{number}"
        machine.call("build", "--file", str(file), "--tag", tag, str(machine.folder / "empty"))
        made[tag] = machine.call("image", "inspect", "--format", "{{.Id}}", tag)
    yield made
    for image in made.values():
        with contextlib.suppress(AssertionError):
            machine.call("image", "rm", "--force", image)


def kept(store: EnvironmentStore, number: int, tag: str, image: str, *, project: str = "p") -> EnvironmentPlace:
    """Record an image of a MiB that was used last ``number`` seconds after the first."""
    place = store.place(project, f"{number:032d}")
    lock_file = FileLock(place.lock)
    assert lock_file.take(alone=True)
    place.write_record(
        EnvironmentRecord(kind="container", image=image, bytes=MIB, image_names=(tag,), image_digest="x")
    )
    lock_file.release()
    os.utime(place.lock, (time.time() - 100 + number,) * 2)
    return place


def test_the_image_that_was_used_least_recently_goes_first_and_one_in_use_never(
    machine: Machine, images: dict[str, str], tmp_path: Path
) -> None:
    store = EnvironmentStore(tmp_path)
    store.record_tools(NodeTools(podman=machine.runtime.program))
    places = [kept(store, number, tag, image) for number, (tag, image) in enumerate(images.items())]
    in_use = FileLock(places[0].lock)
    assert in_use.take(alone=False)
    os.utime(places[0].lock, (time.time() - 200,) * 2)
    there = set(machine.call("images", "--quiet", "--no-trunc").split())
    assert store.make_room(2 * MIB) == [places[1].digest]
    oldest, second, newest = images.values()
    assert there - set(machine.call("images", "--quiet", "--no-trunc").split()) == {f"sha256:{second}"}
    in_use.release()
    assert store.make_room(MIB) == [places[0].digest]
    assert there - set(machine.call("images", "--quiet", "--no-trunc").split()) == {
        f"sha256:{one}" for one in (oldest, second)
    }
    assert machine.call("image", "inspect", "--format", "{{.Id}}", newest) == newest


def test_an_image_that_somebody_else_has_named_or_runs_stays(
    machine: Machine, images: dict[str, str], tmp_path: Path
) -> None:
    store = EnvironmentStore(tmp_path)
    store.record_tools(NodeTools(podman=machine.runtime.program))
    named, run_by, shared = images.items()
    machine.call("tag", named[1], "localhost/somebody/own:1")
    machine.call("create", "--name", "somebodys", run_by[1], "/nothing")
    kept(store, 1, *named)
    kept(store, 2, *run_by)
    kept(store, 3, *shared, project="first")
    last = kept(store, 4, f"{shared[0]}-b", shared[1], project="second")
    in_use = FileLock(last.lock)
    assert in_use.take(alone=False)
    machine.call("tag", shared[1], f"{shared[0]}-b")
    try:
        assert len(store.make_room(0)) == 3
        for image in images.values():
            assert machine.call("image", "inspect", "--format", "{{.Id}}", image) == image
        in_use.release()
        assert store.make_room(0) == [last.digest]
        assert shared[1] not in machine.call("images", "--quiet", "--no-trunc"), "with the names of both projects"
        assert named[1] in machine.call("images", "--quiet", "--no-trunc")
    finally:
        machine.call("rm", "--force", "somebodys")
        machine.call("image", "rm", "localhost/somebody/own:1")
