"""An export has all that belongs to a person, no secret, and is for that person alone."""

from __future__ import annotations

import json
import zipfile
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from runs import actions
from runs.models import PersonalExport, Run
from runs.privacy import clock, exporting
from runs.rights.access import Forbidden, NotFound
from runs.values.refused import Refused
from tests.cast import Cast, make_run, make_user

NOW = timezone.now()


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> Path:
    settings.HOME = tmp_path
    settings.ERASURES_FILE = str(tmp_path / "erasures.jsonl")
    return tmp_path


def contents(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        return {name: json.loads(archive.read(name)) for name in archive.namelist() if name.endswith(".json")}


def test_the_terminal_of_the_server_writes_one_and_says_how_large_it_is(cast: Cast, home: Path) -> None:
    file, said = home / "mate.zip", StringIO()
    call_command("person", "export", "mate", str(file), stdout=said)
    num_rows = sum(len(rows) for name, rows in contents(file).items() if name != "data_map.json")
    assert said.getvalue() == f"{file}: {num_rows} rows, {file.stat().st_size} bytes.\n"


def test_it_is_made_by_control_and_downloaded_by_its_owner(cast: Cast) -> None:
    run = make_run(cast, notes="mine")
    make_run(cast, created_by=cast.owner)
    _, secret = actions.create_token(actor=cast.mate, name="CI")
    actions.set_secret(actor=cast.mate, name="HF_TOKEN", value="hf-value")
    export = actions.request_export(actor=cast.mate)
    assert clock.make_exports(NOW) == 1
    export.refresh_from_db()
    assert (export.state, export.problem) == ("ready", "")
    client = Client()
    client.force_login(cast.mate)
    answer = client.get(f"/api/v1/me/exports/{export.pk}/file")
    assert answer.status_code == 200 and b"".join(answer.streaming_content)[:2] == b"PK"  # type: ignore[attr-defined]
    found = contents(exporting.path_of(export.pk))
    assert [one["id"] for one in found["runs.Run.created_by.json"]] == [run.pk]
    assert found["runs.User.pk.json"][0]["username"] == "mate" and "password" not in found["runs.User.pk.json"][0]
    assert (
        found["runs.Token.user.json"][0]["name"] == "CI" and found["runs.Secret.person.json"][0]["name"] == "HF_TOKEN"
    )
    whole = json.dumps(found)
    assert (
        "hf-value" not in whole
        and secret not in whole
        and "ciphertext" not in found["runs.SecretVersion.created_by.json"][0]
    )
    assert exporting.path_of(export.pk).stat().st_mode & 0o077 == 0


def test_nobody_else_gets_it_an_administrator_neither(cast: Cast) -> None:
    root = make_user("root", is_superuser=True)
    export = actions.request_export(actor=root, user=cast.mate)
    clock.make_exports(NOW)
    for user in (root, cast.owner, cast.outsider):
        with pytest.raises(NotFound):
            actions.get_export(actor=user, export_id=export.pk)
    assert actions.get_export(actor=cast.mate, export_id=export.pk) == export
    with pytest.raises(Forbidden):
        actions.request_export(actor=cast.owner, user=cast.mate)


def test_a_second_one_within_the_hour_is_refused_and_an_old_one_goes(cast: Cast) -> None:
    export = actions.request_export(actor=cast.mate)
    with pytest.raises(Refused, match="once an hour"):
        actions.request_export(actor=cast.mate)
    clock.make_exports(NOW)
    exporting.forget_old(NOW + exporting.LIFE / 2)
    assert exporting.path_of(export.pk).exists()
    exporting.forget_old(NOW + exporting.LIFE * 2)
    assert not PersonalExport.objects.exists() and not exporting.path_of(export.pk).exists()


def test_a_run_of_many_rows_is_written_row_by_row(cast: Cast, tmp_path: Path) -> None:
    for _ in range(3):
        make_run(cast)
    num_rows = exporting.write(cast.mate, tmp_path / "all.zip", NOW)
    found = contents(tmp_path / "all.zip")
    assert len(found["runs.Run.created_by.json"]) == Run.objects.count() == 3 and num_rows >= 4
