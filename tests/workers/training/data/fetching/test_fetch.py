from __future__ import annotations

import io
import socket
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pytest
from PIL import Image

from tests.workers.training.data.bringing import load_images, load_table
from tests.workers.training.data.file_server import FileServer, serve_files
from trainyard.formats.addresses import HOSTS
from trainyard.spec.needs import key_of
from workers.training.data import progress
from workers.training.data.fetching import fetch
from workers.training.data.fetching import fetch as fetch_stores
from workers.training.data.fetching.problems import explained
from workers.training.data.problems import DataProblem
from workers.training.data.sources.files import SUFFIXES, find_files

ROWS = b"height,label\n" + b"".join(b"%d,%d\n" % (index, index % 2) for index in range(20))


@pytest.fixture
def site() -> Iterator[FileServer]:
    with serve_files() as server:
        server.files["/rows.csv"] = ROWS
        yield server


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fetch, "PAUSE_S", 0.01)
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(HOSTS, "127.0.0.0/8")  # where these tests' servers are


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def png(shade: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.full((9, 9), shade, np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


PICTURES = {f"images/{name}/{index}.png": png(shade) for name, shade in (("a", 10), ("b", 200)) for index in range(3)}


def test_a_url_is_fetched_once_and_read_as_a_file(site: FileServer) -> None:
    assert load_table(f"{site.url}/rows.csv").facts["num_rows"] == 20
    gets = site.num_gets["/rows.csv"]
    assert load_table(f"{site.url}/rows.csv").classes == ("0", "1")
    assert site.num_gets["/rows.csv"] == gets


def test_its_folder_in_the_cache_is_named_so_that_the_node_can_say_that_it_has_it(
    site: FileServer, tmp_path: Path
) -> None:
    find_files(f"{site.url}/rows.csv", SUFFIXES["csv"])
    assert len(list((tmp_path / "cache").glob(f"fetched-{key_of(f'{site.url}/rows.csv')}-*"))) == 1


def test_what_changed_at_a_url_is_fetched_anew(site: FileServer) -> None:
    first = load_table(f"{site.url}/rows.csv")
    site.files["/rows.csv"] = ROWS.replace(b"1\n", b"7\n")
    assert load_table(f"{site.url}/rows.csv").classes != first.classes


def test_a_server_that_tells_no_versions_is_asked_once_by_each_attempt(
    site: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.has_versions = False
    counts = []
    for attempt in ("one", "one", "two"):
        monkeypatch.setenv("TRAINYARD_ATTEMPT", attempt)
        find_files(f"{site.url}/rows.csv", SUFFIXES["csv"])
        counts.append(site.num_gets["/rows.csv"])
    assert counts[0] == counts[1] < counts[2]


def test_a_server_that_tells_no_sizes_is_read_to_the_end(site: FileServer) -> None:
    site.has_sizes = False
    (path,) = find_files(f"{site.url}/rows.csv", SUFFIXES["csv"]).paths
    assert path.read_bytes() == ROWS


@pytest.mark.parametrize("path", ["/%2e%2e", "/.rows", "/x%2Frows.csv"])
def test_a_name_stays_in_its_folder(site: FileServer, path: str) -> None:
    for served in (path, path.replace("%2e", "."), "/"):
        site.files[served] = ROWS
    try:
        (found,) = find_files(f"{site.url}{path}", SUFFIXES["csv"]).paths
    except DataProblem as problem:
        assert "a web server has no folders" in str(problem)
    else:
        assert found.parent.name == "files" and found.read_bytes() == ROWS


def test_a_connection_that_is_lost_is_tried_again(site: FileServer) -> None:
    site.cut_once.add("/rows.csv")
    (path,) = find_files(f"{site.url}/rows.csv", SUFFIXES["csv"]).paths
    assert path.read_bytes() == ROWS and path.name == "rows.csv"
    assert site.num_gets["/rows.csv"] == 2


def test_the_digest_is_of_the_content_wherever_it_comes_from(site: FileServer, tmp_path: Path) -> None:
    (tmp_path / "here.csv").write_bytes(ROWS)
    digest = load_table(tmp_path / "here.csv").digest
    assert load_table(f"{site.url}/rows.csv", digest=digest).digest == digest
    with pytest.raises(
        DataProblem, match=rf"task\.data\.digest is {'0' * 64}, but {site.url}/rows\.csv has .*{digest}"
    ):
        load_table(f"{site.url}/rows.csv", digest="0" * 64)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, r"which refuses to be read \(401\): check its rights"),
        (403, r"which refuses to be read \(403\): check its rights"),
        (404, r"which is not there \(404\): check the address"),
        (500, r"whose server answered 500: try again"),
    ],
)
def test_what_a_server_refuses_is_said(site: FileServer, status: int, words: str) -> None:
    site.statuses["/rows.csv"] = status
    with pytest.raises(DataProblem, match=rf"task\.data\.location is {site.url}/rows\.csv, {words}"):
        find_files(f"{site.url}/rows.csv", SUFFIXES["csv"])


def test_a_server_that_does_not_answer_is_not_waited_for(site: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_stores, "TIMEOUT_S", 0.3)
    site.silent.add("/rows.csv")
    with pytest.raises(DataProblem, match=r"rows\.csv, whose server does not answer: check that the node can reach it"):
        find_files(f"{site.url}/rows.csv", SUFFIXES["csv"])


def test_a_port_where_nobody_listens_is_said() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DataProblem, match=r"whose server cannot be reached from this node"):
        find_files(f"http://127.0.0.1:{port}/rows.csv", SUFFIXES["csv"])


def test_passwords_and_signatures_of_a_url_are_not_shown(site: FileServer) -> None:
    host = site.url.removeprefix("http://")
    with pytest.raises(DataProblem) as caught:
        find_files(f"http://me:secret@{host}/none.csv?signature=secret", SUFFIXES["csv"])
    assert f"http://{host}/none.csv?" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_no_password_is_in_the_name_of_what_was_fetched(site: FileServer) -> None:
    host = site.url.removeprefix("http://")
    (path,) = find_files(f"http://me:secret@{host}/rows.csv", SUFFIXES["csv"]).paths
    assert path.read_bytes() == ROWS
    assert "secret" not in str(path)


@pytest.mark.parametrize(
    "location",
    [
        "http://me:secret@host/folder/",
        "http://me:secret@host/folder/?signature=secret",
        "zip://rows.csv?signature=secret",
        "cache://rows.csv::https://me:secret@host/rows.csv",
    ],
)
def test_what_cannot_be_fetched_at_all_is_said_without_its_password(location: str) -> None:
    with pytest.raises(DataProblem) as caught:
        find_files(location, SUFFIXES["csv"])
    assert "secret" not in str(caught.value)


def test_what_a_store_says_of_its_own_is_told_without_the_password() -> None:
    location = "https://me:secret@host/rows.csv?signature=secret"
    told = explained(RuntimeError(f"got HTML from {location}, no table"), location)
    assert str(told).endswith("RuntimeError: got HTML from https://host/rows.csv?…, no table")


def test_a_folder_of_a_web_server_is_refused(site: FileServer) -> None:
    with pytest.raises(DataProblem, match="a web server has no folders; name a file of it, or an archive"):
        find_files(f"{site.url}/data/", SUFFIXES["csv"])


def test_a_store_gives_the_files_of_a_folder(tmp_path: Path) -> None:
    store = fsspec.filesystem("memory")
    try:
        for name in ("a.csv", "more/b.csv", "more/notes.md", ".hidden/c.csv"):
            store.pipe_file(f"/shelf/{name}", ROWS)
        found = find_files("memory://shelf", SUFFIXES["csv"]).paths
        assert [path.name for path in found] == ["a.csv", "b.csv"]
        assert load_table("memory://shelf").facts["num_rows"] == 40
        with pytest.raises(DataProblem, match=r"memory://shelf, where there is no file that ends in \.parquet or \.pq"):
            find_files("memory://shelf", SUFFIXES["parquet"])
        with pytest.raises(DataProblem, match="memory://attic, which is not there: check the address"):
            find_files("memory://attic", SUFFIXES["csv"])
    finally:
        store.rm("/shelf", recursive=True)


def test_an_archive_is_a_folder_wherever_it_lies(site: FileServer, tmp_path: Path) -> None:
    content = zipped({**PICTURES, "__MACOSX/images/a/._0.png": b"?", "../outside.png": b"?"})
    site.files["/images.zip"] = content
    (tmp_path / "images.zip").write_bytes(content)
    for location in (
        f"{site.url}/images.zip",
        f"zip://images::{site.url}/images.zip",
        str(tmp_path / "images.zip"),
        f"zip://::{tmp_path}/images.zip",
    ):
        samples = load_images(location)
        assert samples.classes == ("a", "b") and samples.facts["num_rows"] == 6
    assert not list(tmp_path.rglob("outside.png"))


def test_a_packed_tar_is_one_too(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "images.tar.gz", "w:gz") as archive:
        for name, content in PICTURES.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    assert load_images(tmp_path / "images.tar.gz").facts["num_rows"] == 6


def test_an_archive_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    (tmp_path / "images.zip").write_bytes(zipped(PICTURES)[:-100])
    with pytest.raises(DataProblem, match=r"images\.zip, which is not a whole archive: bring it again"):
        load_images(tmp_path / "images.zip")


def test_an_archive_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataProblem, match=r"images\.zip, which is not on this machine: put it on every node"):
        load_images(tmp_path / "images.zip")


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("s3://bucket/rows.csv", "s3://, which needs a package that this node has not: pip install s3fs"),
        ("gs://bucket/rows.csv", "gs://, which needs a package that this node has not: pip install gcsfs"),
        ("ssh://host/rows.csv", "begins with ssh://; accepted are http, https, s3"),
        ("github://me:code@main/rows.csv", "begins with github://; accepted are"),
        ("reference://::file:///etc/passwd", "only archives are written with ::"),
        ("zip://rows.csv", "only archives are written with ::, such as zip://folder::/data/all.zip"),
    ],
)
def test_a_protocol_that_cannot_be_read_is_said(location: str, words: str) -> None:
    with pytest.raises(DataProblem, match=words):
        find_files(location, SUFFIXES["csv"])


def test_what_takes_long_is_told_in_the_log(
    site: FileServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    find_files(f"{site.url}/rows.csv", SUFFIXES["csv"])
    told = capfd.readouterr()
    assert f"fetching {site.url}/rows.csv: {len(ROWS)} B of {len(ROWS)} B" in told.err
    assert not told.out


def test_a_cache_without_room_is_said_before_the_fetch(site: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    site.files["/rows.csv"] = ROWS * 100
    monkeypatch.setenv("TRAINYARD_CACHE_LIMIT_BYTES", "4096")
    with pytest.raises(DataProblem, match="raise TRAINYARD_CACHE_LIMIT_BYTES, or take less data"):
        find_files(f"{site.url}/rows.csv", SUFFIXES["csv"])
    assert not site.num_gets["/rows.csv"]
