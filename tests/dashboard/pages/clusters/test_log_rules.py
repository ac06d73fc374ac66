"""Rules of the log over REST and on the form of a cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from runs.models import Run, User
from tests.cast import Cast

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
RULE = {"label": "slow-disk", "pattern": "nfs: .* gone", "action": "notify"}


def test_a_cluster_s_rules_are_set_as_maps_or_lines_and_read_back(as_user: AsUser, cast: Cast) -> None:
    body = {"log_rules": [RULE, "retry: retry \\d+"]}
    answer = as_user(cast.owner).patch("/api/v1/clusters/local", body, content_type="application/json")
    assert answer.status_code == 200, answer.content
    assert answer.json()["log_rules"] == [RULE, {"label": "retry", "pattern": "retry \\d+", "action": "label"}]
    assert as_user(cast.viewer).get("/api/v1/clusters/local").json()["log_rules"][0] == RULE


def test_a_bad_rule_is_refused_with_its_place(as_user: AsUser, cast: Cast) -> None:
    body = {"log_rules": [RULE, {**RULE, "label": "x", "pattern": "a(b"}]}
    answer = as_user(cast.owner).patch("/api/v1/clusters/local", body, content_type="application/json")
    assert answer.status_code == 422
    (problem,) = answer.json()["errors"]
    assert problem["path"] == "log_rules.1.pattern" and "missing ): a(b (at character 1)" in problem["message"]
    cast.cluster.refresh_from_db()
    assert cast.cluster.log_rules == []


def test_the_form_of_a_cluster_has_them_one_a_line(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.owner)
    url = f"/nodes/clusters/{cast.cluster.pk}/edit/"
    given = {"name": "local", "projects": ["default"], "log_rules": "slow-disk notify: nfs: .* gone\r\n"}
    assert client.post(url, given).status_code == 302
    cast.cluster.refresh_from_db()
    assert cast.cluster.log_rules == [RULE]
    assert "slow-disk notify: nfs: .* gone" in client.get(url).content.decode()
    refused = client.post(url, {**given, "log_rules": "fine: a\nbad: (b"})
    assert refused.status_code == 422 and "Rule 2: must be an expression in RE2" in refused.content.decode()


def test_lines_of_a_label_are_searched_by_it(as_user: AsUser, cast: Cast, make_run: Callable[..., Run]) -> None:
    run = make_run()
    client = as_user(cast.viewer)
    assert client.get(f"/api/v1/runs/{run.pk}/logs/search?label=disk-full").json()["items"] == []
    refused = client.get(f"/api/v1/runs/{run.pk}/logs/search?label=nothing")
    assert refused.status_code == 422 and "no rule gives lines" in refused.content.decode()
    assert client.get(f"/api/v1/runs/{run.pk}/logs/search?label=disk-full&q=x").status_code == 422
    assert client.get(f"/api/v1/runs/{run.pk}/logs/search").status_code == 422
    assert client.get(f"/api/v1/runs/{run.pk}/logs/overview").json()["labels"] == {}
