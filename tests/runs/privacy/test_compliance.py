"""Controls of compliance are measured: each is green where it holds, and red, with what is wrong, where it does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from django.test import Client
from django.utils import timezone

from runs import actions
from runs.models import AuditEntry, ErasedPerson, RemovedData, StoredData, Token
from runs.privacy import compliance, erasure
from runs.privacy.compliance import GREEN, GREY, RED
from runs.records.files import outputs
from runs.records.files.encrypted import place_for
from runs.rights.audit.chain import append
from runs.rights.audit.facts import Act, canonical
from runs.values.status import Status
from tests.cast import Cast, make_run, make_user

pytestmark = pytest.mark.django_db(databases="__all__")
NOW = timezone.now()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: Any) -> Iterator[Path]:
    settings.HOME = tmp_path / "home"
    settings.ERASURES_FILE = str(tmp_path / "erasures.jsonl")
    settings.AUDIT_HEAD_FILE = str(tmp_path / "audit_head")
    settings.AUDIT_KEEP_DAYS = 0
    yield settings.HOME


def ended(cast: Cast, days_ago: float = 1.0) -> Any:
    run = make_run(cast, status=Status.SUCCEEDED)
    run.ended_at = NOW - timedelta(days=days_ago)
    run.save()
    return run


def put_file(run_id: str, name: str, *, encrypted: bool) -> None:
    path = place_for(outputs.inside(run_id, name), encrypts=encrypted)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(200))


def administrator(name: str = "root", *, has_factor: bool) -> None:
    user = make_user(name, is_superuser=True, is_staff=True)
    if has_factor:
        Authenticator.objects.create(user=user, type="totp", data={})


def test_a_project_that_does_not_encrypt_is_named(cast: Cast) -> None:
    ended(cast)
    found = compliance.encryption(NOW)
    assert (found.state, found.sentence) == (RED, "Projects with runs that encrypt their files: 0 of 1.")
    assert "Not encrypted: checkpoints and output files of default." in found.facts
    assert found.facts[0] == "The key of secrets is on this server, in no key management service. It wraps and opens."


def test_encryption_is_looked_for_in_the_files_themselves(cast: Cast) -> None:
    run = ended(cast)
    cast.project.encrypts_files = True
    cast.project.save()
    put_file(run.pk, "model.bin", encrypted=True)
    assert compliance.encryption(NOW).state == GREEN
    put_file(run.pk, "plain.bin", encrypted=False)
    found = compliance.encryption(NOW)
    assert found.state == RED and "Output files as they were written: of hello-gpt." in found.facts


def test_a_key_that_does_not_work_is_red(cast: Cast, settings: Any) -> None:
    settings.SECRETS_KMS = "nosuch:key"
    assert compliance.encryption(NOW).state == RED


def test_without_a_rule_nothing_is_to_be_kept_short(cast: Cast) -> None:
    assert compliance.retention(NOW).state == GREY


def test_what_is_older_than_its_rule_is_named_until_it_is_removed(cast: Cast) -> None:
    run = ended(cast, days_ago=40)
    cast.project.keep_outputs_days = 30
    cast.project.save()
    assert compliance.retention(NOW).facts == ["default: runs with outputs older than 30 days: 1."]
    RemovedData.objects.create(run=run, kind="outputs", at=NOW)
    assert compliance.retention(NOW).state == GREEN


def test_what_was_removed_and_is_still_there_is_named(cast: Cast) -> None:
    run = ended(cast, days_ago=40)
    cast.project.keep_outputs_days = 30
    cast.project.save()
    RemovedData.objects.create(run=run, kind="outputs", at=NOW)
    put_file(run.pk, "left.bin", encrypted=False)
    assert compliance.retention(NOW).facts == ["Rows or files of outputs that are left though they were removed: 1."]


def test_a_byte_outside_of_the_regions_is_named(cast: Cast) -> None:
    assert compliance.residency(NOW).state == GREY
    cast.project.regions = "eu"
    cast.project.save()
    ended(cast)
    assert compliance.residency(NOW).facts == ["default: it was not measured within a day."]
    row = StoredData(project=cast.project, kind="logs", place="this server", region="eu", measured_at=NOW)
    row.save()
    assert compliance.residency(NOW).state == GREEN
    row.region = ""
    row.save()
    assert compliance.residency(NOW).facts == ["default: logs at this server, region not known."]


def test_administrators_without_a_second_factor_are_named(cast: Cast) -> None:
    administrator(has_factor=True)
    assert compliance.second_factor(NOW).state == GREEN
    administrator("other", has_factor=False)
    assert compliance.second_factor(NOW).facts == ["Without one: other."]


def test_an_erasure_that_is_not_done_within_a_month_is_red(cast: Cast) -> None:
    assert compliance.erasures(NOW).sentence == "Asked for: 0, done: 0."
    digest = erasure.digest_of(cast.mate)
    row = ErasedPerson.objects.create(number=cast.mate.pk, digest=digest, at=NOW - timedelta(days=29))
    assert compliance.erasures(NOW).state == GREEN
    row.at = NOW - timedelta(days=31)
    row.save()
    found = compliance.erasures(NOW)
    assert (found.state, found.sentence) == (RED, "Asked for: 1, done: 0.")
    assert found.facts[1] == "Open for more than 30 days: 1."


def test_how_long_erasures_took_is_measured(cast: Cast) -> None:
    ErasedPerson.objects.create(number=99, digest="x", at=NOW)
    append(Act(actor="root", action="person.erase", object="user 99", result="ok"))
    found = compliance.erasures(NOW)
    assert (found.state, found.sentence) == (GREEN, "Asked for: 1, done: 1.")
    assert found.facts[0].startswith("The longest took ") and found.facts[0].endswith(" s.")


def test_a_list_of_erasures_that_somebody_else_wrote_is_red(cast: Cast) -> None:
    line = {"number": 1, "digest": "x", "at": NOW.isoformat(), "runs": [], "seal": "0"}
    erasure.list_path().write_text(f"{json.dumps(line)}\n")
    assert compliance.erasures(NOW).state == RED


def test_unusual_access_is_named_and_nobody_who_was_erased(cast: Cast) -> None:
    token = Token.objects.create(user=cast.mate, name="ci", digest="x", revoked_at=NOW - timedelta(hours=1))
    assert compliance.unusual_access(timezone.now()).state == GREEN
    act = Act(actor="mate", actor_number=cast.mate.pk, token=f"{token.pk} ci", address="192.0.2.7", action="runs.stop")
    append(act)
    found = compliance.unusual_access(timezone.now())
    assert found.state == RED
    assert "mate from 192.0.2.7: A token was used after it was revoked" in found.facts[0]
    ErasedPerson.objects.create(number=cast.mate.pk, digest="x", at=timezone.now())
    [shown] = compliance.unusual_access(timezone.now()).facts
    assert "mate" not in shown and "192.0.2.7" not in shown and shown.endswith(f", erased person {cast.mate.pk}.")


def test_control_measures_once_a_day_and_records_what_turned_red(cast: Cast) -> None:
    administrator(has_factor=True)
    compliance.tend(timezone.now())
    compliance.tend(timezone.now() + timedelta(hours=1))
    assert AuditEntry.objects.filter(action="compliance.measured").count() == 1
    assert compliance.alarms() == []
    first = compliance.last_states()[1]["Second factor of administrators"]
    administrator("other", has_factor=False)
    compliance.tend(timezone.now() + timedelta(days=1))
    turned = AuditEntry.objects.filter(action="compliance.red").values_list("object", "result")
    assert list(turned) == [("Second factor of administrators", "failed: it is red")]
    assert compliance.alarms() == ["Second factor of administrators"]
    assert compliance.last_states()[1]["Second factor of administrators"] == {
        "state": RED,
        "green_at": first["green_at"],
    }


def test_what_was_never_green_is_no_alarm(cast: Cast) -> None:
    administrator(has_factor=False)
    compliance.tend(timezone.now())
    assert compliance.alarms() == [] and not AuditEntry.objects.filter(action="compliance.red").exists()


def test_a_report_is_signed_and_every_change_breaks_the_signature(cast: Cast) -> None:
    found: dict[str, Any] = dict(compliance.report(timezone.now()))
    signature = found.pop("signature")
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(found["public_key"]))
    key.verify(bytes.fromhex(signature), canonical(found).encode())
    found["controls"][0]["sentence"] += " Really."
    with pytest.raises(InvalidSignature):
        key.verify(bytes.fromhex(signature), canonical(found).encode())


def test_the_page_and_rest_show_each_control_to_administrators(cast: Cast, client: Client) -> None:
    administrator(has_factor=False)
    compliance.tend(timezone.now())
    _, secret = actions.create_token(actor=make_user("boss", is_superuser=True), name="x")
    found = client.get("/api/v1/compliance", headers={"Authorization": f"Bearer {secret}"}).json()
    assert [one["title"] for one in found["controls"]] == list(compliance.CONTROLS)
    content = {name: value for name, value in found.items() if name != "signature"}
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(found["public_key"]))
    key.verify(bytes.fromhex(found["signature"]), canonical(content).encode())  # of what was sent
    client.force_login(make_user("<b>chief</b>", is_superuser=True, is_staff=True))
    page = client.get("/compliance/").content.decode()
    assert all(title in page for title in compliance.CONTROLS) and found["public_key"] in page
    assert "&lt;b&gt;chief&lt;/b&gt;" in page and "<b>chief</b>" not in page


def test_a_banner_leads_administrators_to_what_turned_red(cast: Cast, client: Client) -> None:
    administrator(has_factor=True)
    compliance.tend(timezone.now())
    chief = make_user("chief", is_superuser=True, is_staff=True)
    compliance.tend(timezone.now() + timedelta(days=1))
    client.force_login(chief)
    assert "no longer green is Second factor of administrators" in " ".join(
        client.get("/account/").content.decode().split()
    )
    client.force_login(cast.owner)
    assert "no longer green" not in client.get("/account/").content.decode()
