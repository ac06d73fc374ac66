"""Names and paths from outside that no file system takes: an answer in words, never a failure of the server."""

from __future__ import annotations

import gzip
import io
import tarfile
from typing import Any

import pytest

from runs.records.files import outputs
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, make_run
from tests.runs.api.training.test_transfers import sealed

pytestmark = pytest.mark.usefixtures("valkey")

LONG = "x" * 300
WIDE = "%C3%B6" * 130  # 260 bytes in 130 characters
NAMES = [LONG, WIDE, "a/" * 300 + "b", "." * 300, "%00", "a%00b", "a%0Ab", "..%2F..%2Fetc%2Fpasswd", "%ED%A0%80"]


@pytest.mark.parametrize("name", [LONG, "lib/" + LONG + "/train.py", "ö" * 130])
def test_a_bundle_with_a_name_that_no_file_system_takes_is_refused(as_: Any, name: str) -> None:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as made:
        made.addfile(tarfile.TarInfo(name))
    answer = as_("mate")("POST", "/bundles?project=default", gzip.compress(plain.getvalue()))
    assert answer.status_code == 422 and "bytes" in answer.json()["detail"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_a_run_is_asked_for_by_any_name(as_: Any, cast: Cast, name: str) -> None:
    run = make_run(cast)
    outputs.output_folder(run.pk).mkdir(parents=True)
    assert as_("mate")("GET", f"/runs/{run.pk}/files/{name}").status_code == 404


@pytest.mark.parametrize("name", NAMES[:5])
def test_a_node_sends_a_file_by_any_name(as_: Any, cast: Cast, name: str) -> None:
    node = make_node(cast.cluster, "holder")
    run = make_run(cast, status=Status.RUNNING)
    attempt = make_attempt(run, [node], phase=Phase.RUNNING)
    path = f"/node/runs/{run.pk}/fences/{attempt.fence}/files/{name.replace('%C3%B6', 'ö').replace('%00', chr(0))}"
    answer = as_("")("PUT", path, b"x", **sealed(node, "PUT", path, b"x"))
    assert answer.status_code in (401, 404, 422)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "path",
    ["/runs/{}", "/runs/{}/files", "/jobs/{}", "/datasets/{}", "/nodes/{}", "/clusters/{}", "/projects/{}/members"],
)
def test_a_thing_is_asked_for_by_any_name(as_: Any, path: str, name: str) -> None:
    assert as_("mate")("GET", path.format(name)).status_code in (404, 422)


@pytest.mark.parametrize("name", NAMES)
def test_a_bundle_is_fetched_by_any_name(as_: Any, cast: Cast, name: str) -> None:
    node = make_node(cast.cluster, "holder")
    plain = name.replace("%C3%B6", "ö")
    answer = as_("")("GET", f"/bundles/{plain}", **sealed(node, "GET", f"/bundles/{plain}", b""))
    assert answer.status_code in (401, 404)
