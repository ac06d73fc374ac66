"""Links for guests over REST, and what ends them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from runs import actions
from runs.actions.people.ways_in import disable
from runs.models import AuditEntry, Membership, Project, Role, Run, SharedLink, Token
from runs.models.access import digest_of
from runs.values.status import Status
from tests.cast import Cast, make_run, make_sweep

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]
As = Callable[[str], Any]


@pytest.fixture
def run(cast: Cast) -> Run:
    return make_run(cast, status=Status.SUCCEEDED)


def shared(mate: Any, run: Run, **more: Any) -> dict[str, Any]:
    answer = mate("POST", "/share", {"object": f"run/{run.pk}", **more})
    assert answer.status_code == 201, answer.content
    found: dict[str, Any] = answer.json()
    return found


def opened(made: dict[str, Any]) -> Any:
    return Client().get(path_of(made))


def path_of(made: dict[str, Any]) -> str:
    return "/shared/" + str(made["url"]).partition("/shared/")[2]


def test_a_link_opens_without_an_account_and_counts_how_often(mate: Any, run: Run) -> None:
    made = shared(mate, run)
    path = path_of(made)
    assert Client().get(path).status_code == 200
    Client().get(path + "?again=1")  # the page refreshed itself
    Client().head(path)
    [listed] = mate("GET", f"/share?object=run/{run.pk}").json()["items"]
    assert (listed["num_opened"], listed["id"], listed["created_by"]) == (1, made["id"], "mate")
    assert listed["first_opened_at"] <= listed["last_opened_at"]
    assert "url" not in listed


def test_the_secret_is_stored_as_a_digest_alone(mate: Any, run: Run) -> None:
    secret = path_of(shared(mate, run)).split("/")[2]
    link = SharedLink.objects.get()
    assert len(secret) >= 43 and link.digest == digest_of(secret)
    assert secret not in str([SharedLink.objects.values(), AuditEntry.objects.values()])


def test_a_link_lasts_30_days_unless_told_otherwise_and_a_year_at_most(mate: Any, run: Run) -> None:
    shared(mate, run)
    assert SharedLink.objects.get().expires_at - timezone.now() > timedelta(days=29)
    for days in (-1, 400):
        ends_at = (timezone.now() + timedelta(days=days)).isoformat()
        answer = mate("POST", "/share", {"object": f"run/{run.pk}", "expires_at": ends_at})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["path"] == "expires_at"
        assert "within a year" in answer.json()["detail"]


@pytest.mark.parametrize(
    "name", ["", "run", "node/1", "compare/1", "https://example.org/", "run/", "compare?" + 3_000 * "run=a&"]
)
def test_what_names_nothing_is_refused_with_what_is_accepted(mate: Any, name: str) -> None:
    answer = mate("POST", "/share", {"object": name})
    assert answer.status_code == (404 if name == "run/" else 422)
    if name != "run/":
        assert "accepted: run/ID, sweep/ID, report/ID, compare?run=ID" in answer.json()["detail"]


def test_a_viewer_may_not_share_and_an_outsider_sees_nothing(as_: As, mate: Any, run: Run) -> None:
    made = shared(mate, run)
    for name, status in (("viewer", 403), ("outsider", 404)):
        assert as_(name)("POST", "/share", {"object": f"run/{run.pk}"}).status_code == status
        assert as_(name)("DELETE", f"/share/{made['id']}").status_code == status
    assert len(as_("viewer")("GET", "/share").json()["items"]) == 1
    assert as_("outsider")("GET", "/share").json()["items"] == []
    assert opened(made).status_code == 200


def test_a_revoked_link_says_so(as_: As, mate: Any, run: Run) -> None:
    made = shared(mate, run)
    assert as_("owner")("DELETE", f"/share/{made['id']}").status_code == 204
    answer = opened(made)
    assert answer.status_code == 410
    assert "It was revoked." in answer.content.decode()
    assert {"share.create", "share.revoke"} <= set(AuditEntry.objects.values_list("action", flat=True))


def test_a_link_ends(mate: Any, run: Run) -> None:
    made = shared(mate, run)
    SharedLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    answer = opened(made)
    assert answer.status_code == 410
    assert "It ended on" in answer.content.decode()


def gone(made: dict[str, Any]) -> bool:
    answer = opened(made)
    return answer.status_code == 410 and "was deleted or moved" in answer.content.decode()


def test_a_link_ends_with_what_it_shows(cast: Cast, mate: Any, run: Run) -> None:
    made = shared(mate, run)
    actions.delete_run(actor=cast.mate, run=run)
    assert gone(made)


def test_a_link_does_not_follow_a_run_into_another_project(cast: Cast, mate: Any, run: Run) -> None:
    other = Project.objects.create(name="other")
    Membership.objects.create(project=other, user=cast.mate, role=Role.OWNER)
    made, pair = shared(mate, run), mate("POST", "/share", {"object": f"compare?run={run.pk}"}).json()
    Run.objects.filter(pk=run.pk).update(project=other)
    assert gone(made) and gone(pair)


def test_a_link_ends_with_the_right_of_its_maker(cast: Cast, mate: Any, run: Run) -> None:
    made = shared(mate, run)
    Membership.objects.filter(user=cast.mate).update(role=Role.VIEWER)
    assert gone(made)
    Membership.objects.filter(user=cast.mate).delete()
    assert gone(made)


def test_a_link_ends_with_its_makers_account(cast: Cast, mate: Any, run: Run) -> None:
    made = shared(mate, run)
    disable(cast.mate)
    assert opened(made).status_code == 410
    SharedLink.objects.update(revoked_at=None, created_by=None, by_token=None)
    assert gone(made)


def test_a_link_ends_with_the_token_that_made_it_and_no_later(mate: Any, run: Run) -> None:
    ends_at = timezone.now() + timedelta(days=2)
    Token.objects.update(expires_at=ends_at)
    made = shared(mate, run)
    assert SharedLink.objects.get().expires_at <= ends_at
    Token.objects.update(revoked_at=timezone.now())
    assert opened(made).status_code == 410


def test_a_link_to_a_comparison_shows_the_runs_of_that_moment(cast: Cast, mate: Any, run: Run) -> None:
    made = mate("POST", "/share", {"object": "compare?filter=status = succeeded&metric=train/loss"}).json()
    assert made["object"] == f"compare?run={run.pk}&metric=train/loss"
    make_run(cast, status=Status.SUCCEEDED, name="later")
    answer = opened(made)
    assert answer.status_code == 200 and "later" not in answer.content.decode()


def test_a_comparison_holds_what_its_maker_sees_of_one_project(cast: Cast, mate: Any, run: Run) -> None:
    hidden = make_run(cast, project=Project.objects.create(name="hidden"))
    assert mate("POST", "/share", {"object": f"compare?run={hidden.pk}"}).status_code == 404
    both = mate("POST", "/share", {"object": f"compare?run={run.pk}&run={hidden.pk}"})
    assert both.json()["object"] == f"compare?run={run.pk}"
    Membership.objects.create(project=hidden.project, user=cast.mate, role=Role.OWNER)
    other = mate("POST", "/share", {"object": f"compare?run={run.pk}&run={hidden.pk}"}).json()
    assert other["object"] == f"compare?run={run.pk}", "runs of another project are shared there"


def test_a_sweep_is_shared(cast: Cast, mate: Any) -> None:
    sweep = make_sweep(cast)
    made = mate("POST", "/share", {"object": f"sweep/{sweep.pk}"})
    assert made.status_code == 201
    assert "search" in opened(made.json()).content.decode()


def test_whoever_tries_links_that_there_are_not_has_to_wait_and_right_ones_open(mate: Any, run: Run) -> None:
    made = shared(mate, run)
    answers = [Client().get(f"/shared/{'x' * 43}/") for _ in range(6)]
    assert [one.status_code for one in answers] == [404] * 5 + [429]
    assert int(answers[-1]["Retry-After"]) > 0
    assert opened(made).status_code == 200
