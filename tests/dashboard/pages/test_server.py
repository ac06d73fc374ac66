"""The page of the server's own health."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from runs.models import User
from runs.serving import open_sockets
from runs.values.status import Status
from tests.cast import Cast, make_node, make_run, make_user

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.usefixtures("valkey")]
AsUser = Callable[[User], Client]


@pytest.fixture
def administrator() -> User:
    return make_user("chief", is_superuser=True)


def test_an_administrator_sees_what_is_well_and_what_is_not(
    as_user: AsUser, administrator: User, cast: Cast, settings: Any, tmp_path: Path
) -> None:
    make_node(cast.cluster)
    make_run(cast, status=Status.RUNNING)
    open_sockets.write(7)
    settings.HOME = tmp_path
    text = as_user(administrator).get("/server/").content.decode()
    assert "Control has not worked" in text and '<span class="audit-result is-red">failed</span>' in text
    assert "None was made of this home." in text and '<span class="audit-result is-amber">warning</span>' in text
    assert ">local, in contact</td>" in text and ">RUNNING</td>" in text and ">QUEUED</td>" not in text
    assert '<td class="num">7</td>' in text and re.search(r"\b0\.\d s beside Valkey", text)
    (tmp_path / "last_backup.json").write_text(json.dumps({"at": "2020-01-01T00:00:00+00:00", "file": "/srv/a.tar"}))
    fragment = as_user(administrator).get("/server/?fragment=state").content.decode()
    assert "/srv/a.tar is " in fragment and "<html" not in fragment


def test_nobody_else_sees_it_or_a_link_to_it(as_user: AsUser, administrator: User, cast: Cast) -> None:
    assert as_user(cast.owner).get("/server/").status_code == 403
    assert 'href="/server/"' not in as_user(cast.owner).get("/").content.decode()
    assert 'href="/server/"' in as_user(administrator).get("/").content.decode()
