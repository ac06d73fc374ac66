"""Files of a run: what is here, and what is on its way."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest
from django.test import Client

from runs.models import Run, User
from runs.records.files.paths import output_folder
from tests.cast import Cast, make_attempt, make_node

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]


@pytest.mark.parametrize("names", [("a.pt", "b.pt"), ("a.pt", "node-1/b.pt")], ids=["plain", "of a second node"])
def test_a_file_that_came_before_its_node_said_so_is_not_on_its_way_too(
    as_user: Callable[[User], Client], cast: Cast, make_run: Callable[..., Run], names: tuple[str, str]
) -> None:
    run = make_run()
    make_attempt(run, [make_node(cast.cluster, "one"), make_node(cast.cluster, "two")], go={})
    output = {"num_pending": 3, "pending": {"a.pt": 5, "b.pt": 5, "c.pt": 5}, "sending": {"c.pt": 2}}
    run.attempts.get().placements.filter(node_rank=1).update(output=output)
    for name in names:
        path = output_folder(run.pk) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12345")
    os.utime(output_folder(run.pk) / "a.pt", (time.time() - 60,) * 2)  # of before: the node sends it anew
    page = as_user(cast.mate).get(f"/runs/{run.pk}/files/").content.decode()
    here, coming = page.split("On their way")
    assert "a.pt" in here and names[1] in here
    assert "a.pt" in coming and "c.pt" in coming and "b.pt" not in coming
    assert "files on two in all" not in coming
