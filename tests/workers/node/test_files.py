"""Code that comes to a node and output that leaves it."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.workers.web import Site, serve_site
from trainyard.bundle import pack
from trainyard.contract.base import JsonObject, to_builtins
from trainyard.contract.limits import UPLOAD_PART_BYTES
from trainyard.contract.orders import CodeReference, Order
from trainyard.contract.seals import new_key
from workers.attempt.folder import AttemptFolder
from workers.node.finished import send_traces
from workers.node.output import files, sending
from workers.node.output.files import gained, list_files, record_code, take_over
from workers.node.output.sending import carry_out_decision, output_state, upload_finished, upload_output
from workers.node.preparation.orders import CannotRunHere, lay_out_code
from workers.node.server_client import ServerClient
from workers.transport.node_config import NodeConfig, make_home

KEY = new_key()


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site() as site:
        site.key = KEY
        yield site


@pytest.fixture
def server(site: Site) -> ServerClient:
    return ServerClient(NodeConfig(site.url, "n1", "one", KEY, "unix:///x", "local"))


@pytest.fixture
def folder(home: Path) -> AttemptFolder:
    make_home(home)
    folder = AttemptFolder(home / "attempts" / "a")
    folder.create(Order(attempt="a", run="r", fence=1))
    return folder


def order_for(sha256: str, script: str = "src/train.py") -> Order:
    code = CodeReference(sha256, size_bytes=1)
    return Order(attempt="a", run="r", fence=2, node_name="one", code=code, spec={"task": {"script": script}})


def pack_files(folder: Path, **files: str) -> tuple[bytes, str]:
    for name, text in files.items():
        path = folder / "src" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    data, sha256, _ = pack(folder)
    return data, sha256


def test_code_is_fetched_once_and_laid_out_afresh(
    site: Site, server: ServerClient, folder: AttemptFolder, home: Path, tmp_path: Path
) -> None:
    data, sha256 = pack_files(tmp_path, train="print()", helper="")
    site.bundles[sha256] = data
    lay_out_code(order_for(sha256), folder, home / "cache", server)
    assert (folder.code / "src" / "train.py").read_text() == "print()"
    (folder.code / "left over").touch()
    site.bundles.clear()
    lay_out_code(order_for(sha256), folder, home / "cache", server)
    assert not (folder.code / "left over").exists()


def test_a_bundle_that_the_server_does_not_have_is_refused(
    server: ServerClient, folder: AttemptFolder, home: Path
) -> None:
    with pytest.raises(CannotRunHere) as refused:
        lay_out_code(order_for("0" * 64), folder, home / "cache", server)
    assert refused.value.code == "code_missing"


def test_a_server_in_trouble_is_no_refusal(site: Site, server: ServerClient, folder: AttemptFolder, home: Path) -> None:
    site.failures = 1
    with pytest.raises(httpx.HTTPStatusError):
        lay_out_code(order_for("0" * 64), folder, home / "cache", server)


def test_a_bundle_with_another_content_is_refused_and_not_kept(
    site: Site, server: ServerClient, folder: AttemptFolder, home: Path, tmp_path: Path
) -> None:
    data, _ = pack_files(tmp_path, train="print()")
    wanted = "0" * 64
    site.bundles[wanted] = data
    with pytest.raises(CannotRunHere, match="SHA-256"):
        lay_out_code(order_for(wanted), folder, home / "cache", server)
    assert not list((home / "cache" / "bundles").iterdir())


def test_what_is_no_bundle_is_refused(site: Site, server: ServerClient, folder: AttemptFolder, home: Path) -> None:
    data = b"no archive"
    sha256 = hashlib.sha256(data).hexdigest()
    site.bundles[sha256] = data
    with pytest.raises(CannotRunHere) as refused:
        lay_out_code(order_for(sha256), folder, home / "cache", server)
    assert refused.value.code == "code_refused"


def test_a_damaged_file_in_the_cache_is_fetched_anew(
    site: Site, server: ServerClient, folder: AttemptFolder, home: Path, tmp_path: Path
) -> None:
    data, sha256 = pack_files(tmp_path, train="print()")
    site.bundles[sha256] = data
    (home / "cache" / "bundles" / sha256).write_bytes(data[:-1])
    lay_out_code(order_for(sha256), folder, home / "cache", server)
    assert (folder.code / "src" / "train.py").exists()


def test_output_files_reach_the_server_with_their_names(
    site: Site, server: ServerClient, folder: AttemptFolder
) -> None:
    (folder.output / "deep").mkdir()
    (folder.output / "weights.safetensors").write_bytes(b"x" * 3_000_000)
    (folder.output / "deep" / "ä %2e#?.txt").write_bytes(b"")
    upload_output(order_for("0" * 64), folder, server)
    base = "/api/v1/node/runs/r/fences/2/files"
    assert site.files == {f"{base}/weights.safetensors": b"x" * 3_000_000, f"{base}/deep/ä %2e#?.txt": b""}
    assert folder.uploaded_mark.exists()


def test_links_inside_are_kept_and_those_that_lead_outside_are_refused_and_named(
    site: Site, server: ServerClient, folder: AttemptFolder, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret")
    (folder.output / "ckpt-9").mkdir()
    (folder.output / "ckpt-9" / "model.pt").write_bytes(b"weights")
    (folder.output / "latest.pt").symlink_to("ckpt-9/model.pt")
    (folder.output / "latest").symlink_to("ckpt-9")
    (folder.output / "link").symlink_to(tmp_path / "secret")
    (folder.output / "way").symlink_to(tmp_path)
    (folder.output / "loop").symlink_to(".")
    (folder.output / "broken").symlink_to("nothing")
    os.mkfifo(folder.output / "pipe")
    upload_output(order_for("0" * 64), folder, server)
    assert list(site.files.values()) == [b"weights"]
    assert site.links == {"latest.pt": "ckpt-9/model.pt", "latest/model.pt": "ckpt-9/model.pt"}
    assert folder.output_sent().refused == {
        "link": "It is a link that leads out of the folder.",
        "way": "It is a link that leads out of the folder.",
        "loop": "It is a link that leads out of the folder.",
        "broken": "It is a link to nothing.",
        "pipe": "It is no file.",
    }
    assert folder.uploaded_mark.exists() and not folder.is_uploaded(), "the node keeps them until somebody decides"


def test_a_link_to_a_folder_counts_as_the_files_that_it_stands_for(
    folder: AttemptFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_FILES", 5)
    (folder.output / "data").mkdir()
    for number in range(4):
        (folder.output / "data" / str(number)).touch()
    (folder.output / "more").mkdir()
    (folder.output / "more" / "again").symlink_to("../data")
    contents = list_files(folder.output)
    assert [one.name for one in contents.entries] == [*(f"data/{number}" for number in range(4)), "more/again/0"]
    assert contents.left_out == {"more/again/1": "there are more than 5 files"}


def test_a_large_file_goes_in_parts_and_goes_on_where_it_stopped(
    site: Site, server: ServerClient, folder: AttemptFolder
) -> None:
    data = bytes(range(256)) * (5 * 2**20 // 64)  # 20 MiB
    (folder.output / "big.pt").write_bytes(data)
    (entry,) = list_files(folder.output).entries
    site.uploads[entry.key] = "big.pt", len(data), data[:UPLOAD_PART_BYTES]  # a node worker before this one
    before = site.num_puts
    upload_output(order_for("0" * 64), folder, server)
    assert site.files == {"big.pt": data}
    assert site.num_puts - before == 2, "only the rest was sent"
    assert folder.is_uploaded()


def test_what_is_finished_comes_while_the_run_goes_on_and_the_rest_is_named(
    site: Site, server: ServerClient, folder: AttemptFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder.output / "epoch-1.pt").write_bytes(b"one")
    os.utime(folder.output / "epoch-1.pt", (time.time() - 60,) * 2)
    (folder.output / "log.txt").write_bytes(b"half a li")
    (folder.output / "huge.pt").write_bytes(b"x" * 100)
    os.utime(folder.output / "huge.pt", (time.time() - 60,) * 2)
    monkeypatch.setattr(sending, "LIVE_BYTES", 50)
    upload_finished(order_for("0" * 64), folder, server)
    assert list(site.files.values()) == [b"one"]
    document = output_state(folder)
    assert (document.pending, document.is_sent) == ({"huge.pt": 100, "log.txt": 9}, False)
    (folder.output / "epoch-1.pt").write_bytes(b"another one")
    upload_output(order_for("0" * 64), folder, server)
    assert sorted(site.files.values()) == [b"another one", b"half a line"[:9], b"x" * 100]
    assert output_state(folder).is_sent


def laid_out(folder: AttemptFolder) -> None:
    (folder.code / "train.py").write_text("pass")
    (folder.code / "results.csv").write_text("epoch,loss")
    record_code(folder)


def test_what_the_working_folder_gained_is_reported_and_waits_for_a_decision(
    site: Site, server: ServerClient, folder: AttemptFolder
) -> None:
    laid_out(folder)
    (folder.code / "__pycache__").mkdir()
    (folder.code / "__pycache__" / "x.pyc").write_bytes(b"x")
    (folder.code / "out").mkdir()
    (folder.code / "out" / "snapshot.pt").write_bytes(b"snapshot")
    (folder.code / "results.csv").write_text("epoch,loss\n1,2")
    order = order_for("0" * 64)
    upload_output(order, folder, server)
    files = [{"path": "out/snapshot.pt", "size_bytes": 8}, {"path": "results.csv", "size_bytes": 14}]
    assert site.gained == [{"num_files": 2, "bytes": 22, "files": files[::-1]}]
    assert site.files == {} and folder.uploaded_mark.exists() and not folder.is_uploaded()
    carry_out_decision("upload", order, folder, server)
    base = "/api/v1/node/runs/r/fences/2/files/working-folder"
    assert site.files == {f"{base}/out/snapshot.pt": b"snapshot", f"{base}/results.csv": b"epoch,loss\n1,2"}
    assert site.gained[-1]["num_files"] == 0 and folder.is_uploaded()


def test_the_next_attempt_goes_on_in_the_working_folder(folder: AttemptFolder, home: Path) -> None:
    laid_out(folder)
    (folder.code / "out").mkdir()
    (folder.code / "out" / "snapshot.pt").write_bytes(b"snapshot")
    (folder.code / "results.csv").write_text("epoch,loss\n1,2")
    after = AttemptFolder(home / "attempts" / "b")
    after.create(Order(attempt="b", run="r", fence=2))
    laid_out(after)
    (after.code / "out").mkdir()
    assert take_over(folder, after) == 2
    assert (after.code / "out" / "snapshot.pt").read_bytes() == b"snapshot"
    assert (after.code / "results.csv").read_text() == "epoch,loss\n1,2"
    assert {one.name for one in gained(after)} == {"out/snapshot.pt", "results.csv"}
    assert folder.taken_mark.exists()


def traced(folder: AttemptFolder, name: str = "step-4.rank-1.json.gz") -> Path:
    (folder.output / "traces").mkdir(exist_ok=True)
    path = folder.output / "traces" / name
    path.write_bytes(b"a trace")
    return path


def test_a_finished_trace_is_sent_once_from_any_node(site: Site, server: ServerClient, folder: AttemptFolder) -> None:
    order = Order(attempt="a", run="r", fence=2, first_rank=1)
    traced(folder)
    traced(folder, ".step-8.rank-1.json.gz")  # still being written
    send_traces(order, folder, server)
    assert site.files == {"/api/v1/node/runs/r/fences/2/files/traces/step-4.rank-1.json.gz": b"a trace"}
    site.files.clear()
    send_traces(order, folder, server)
    assert site.files == {} and folder.unsent_traces() == []


def test_a_trace_waits_for_a_server_that_is_away(site: Site, server: ServerClient, folder: AttemptFolder) -> None:
    path = traced(folder)
    site.failures = 1
    with pytest.raises(httpx.HTTPError):
        send_traces(Order(attempt="a", run="r", fence=2), folder, server)
    assert folder.unsent_traces() == [path.name]


def test_a_node_without_rank_0_sends_its_output_too_and_no_trace_twice(
    site: Site, server: ServerClient, folder: AttemptFolder
) -> None:
    order = Order(attempt="a", run="r", fence=2, first_rank=1)
    folder.create(order)
    traced(folder)
    send_traces(order, folder, server)
    (folder.output / "shard-1.pt").write_bytes(b"shard")
    assert not folder.is_uploaded()
    before = site.num_puts
    upload_output(order, folder, server)
    assert site.num_puts == before + 1 and b"shard" in site.files.values()
    assert folder.is_uploaded()


def test_only_traces_of_steps_are_sent_as_such_and_no_links(
    site: Site, server: ServerClient, folder: AttemptFolder
) -> None:
    """A script may keep what it likes in a folder of that name: it must neither leave the node nor hold it up."""
    secret = folder.path / "secret"
    secret.write_text("a key")
    traces = folder.output / "traces"
    traces.mkdir()
    (traces / "step-1.rank-1.json.gz").symlink_to(secret)
    (traces / "step-2.rank-1.json.gz").mkdir()
    (traces / "mine.json").write_text("half wri")
    send_traces(Order(attempt="a", run="r", fence=2), folder, server)
    assert site.files == {} and folder.unsent_traces() == []


def test_a_link_in_place_of_the_folder_of_traces_leads_nowhere(folder: AttemptFolder) -> None:
    elsewhere = folder.path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "step-1.rank-1.json.gz").write_text("a key")
    (folder.output / "traces").symlink_to(elsewhere)
    assert folder.unsent_traces() == []


def problems(output: JsonObject) -> JsonObject:
    return {name: output[name] for name in ("problem", "num_refused", "refused")}


@pytest.mark.parametrize("status", [401, 403, 408, 429, 500, 503, 507])
def test_a_file_that_is_not_taken_now_is_sent_again_and_the_others_go_meanwhile(
    site: Site, server: ServerClient, folder: AttemptFolder, status: int
) -> None:
    for name in ("a", "b", "c"):
        (folder.output / name).write_text(name)
    site.refusals["b"] = status
    with pytest.raises(httpx.HTTPStatusError):
        upload_output(order_for("0" * 64), folder, server)
    assert not folder.uploaded_mark.exists() and sorted(site.files.values()) == [b"a", b"c"]
    site.refusals.clear()
    before = site.num_puts
    upload_output(order_for("0" * 64), folder, server)
    assert folder.uploaded_mark.exists() and sorted(site.files.values()) == [b"a", b"b", b"c"]
    assert site.num_puts == before + 1, "what was sent already is not sent again"
    assert problems(to_builtins(output_state(folder))) == {"problem": "", "num_refused": 0, "refused": {}}


@pytest.mark.parametrize("status", [404, 409, 410, 413, 422])
def test_a_file_that_is_refused_for_good_is_named_and_ends_the_trying(
    site: Site, server: ServerClient, folder: AttemptFolder, status: int
) -> None:
    (folder.output / "a").write_text("a")
    (folder.output / "b").write_text("b")
    site.refusals["b"] = status
    upload_output(order_for("0" * 64), folder, server)
    assert folder.uploaded_mark.exists()
    assert problems(to_builtins(output_state(folder))) == {"problem": "", "num_refused": 1, "refused": {"b": "Not b."}}
    assert output_state(AttemptFolder(folder.path)).num_refused == 1, "a node worker that starts anew knows it"
