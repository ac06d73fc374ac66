"""``/notices``: what the bell has, and the rules of a person or a project by which notices are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest
from ninja import Field, Query, Schema
from ninja import Status as Answer

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.paging import ListQuery, Page, page
from runs.api.schemas import Body, Shown
from runs.models import Notice, NoticeRule, Project
from runs.notices.destinations import document_of
from runs.rights.access import Permission, named_project
from runs.rights.access.operations import operation, own

router = Resource(tags=["notices"])


class RuleIn(Body):
    where: str = Field(description="page, email, webhook, slack, teams or discord")
    kinds: dict[str, int] = Field(description='each with its number, 0 where it has none: `{"waits": 30}`')
    destination: str = Field("", description="a URL, or of a project an address of e-mail; it is not shown again")
    only_mine: bool = Field(False, description="of runs and sweeps those that you launched")
    project: str | None = Field(None, description="whose rule it is; without it, yours")


class RuleOut(Schema):
    id: str
    where: str
    kinds: dict[str, int]
    only_mine: bool
    shown: str
    created_at: Shown


class MadeOut(RuleOut):
    key: str = Field(description="signs what a webhook gets; shown this once")


class TestIn(Body):
    rule: str


@router.get("/notices", response=Page[dict[str, Any]], summary="My notices, the newest first")
@operation(own(Permission.ACCOUNT_READ))
def find(request: HttpRequest, query: Query[ListQuery]) -> Page[dict[str, Any]]:
    return page(actions.visible_notices(actor(request)), _shown, sort="-id", cursor=query.cursor, limit=query.limit)


@router.get("/notices/rules", response=list[RuleOut], summary="My rules, or those of a project")
@operation(own(Permission.ACCOUNT_READ))
def rules(request: HttpRequest, project: str | None = None) -> list[NoticeRule]:
    return list(actions.notice_rules(actor=actor(request), project=_project(request, project)))


@router.post("/notices/rules", response={201: MadeOut}, summary="Make a rule")
@operation(own(Permission.ACCOUNT_MANAGE))
def make(request: HttpRequest, body: RuleIn) -> Answer[dict[str, Any]]:
    """Example: `{"where": "webhook", "kinds": {"failed": 0}, "destination": "https://example.org/hook"}`"""
    given = {**body.dict(), "project": _project(request, body.project)}
    rule, key = actions.save_notice_rule(actor=actor(request), **given)
    return Answer(201, {**RuleOut.from_orm(rule).dict(), "key": key})


@router.delete("/notices/rules/{rule_id}", response={204: None}, summary="Delete a rule")
@operation(own(Permission.ACCOUNT_MANAGE))
def delete(request: HttpRequest, rule_id: str) -> Answer[None]:
    actions.do_notice_rule(actor=actor(request), rule_id=rule_id, verb="delete")
    return Answer(204, None)


@router.post("/notices/test", response={202: None}, summary="Send a test by a rule")
@operation(own(Permission.ACCOUNT_MANAGE))
def test(request: HttpRequest, body: TestIn) -> Answer[None]:
    actions.do_notice_rule(actor=actor(request), rule_id=body.rule, verb="test")
    return Answer(202, None)


def _project(request: HttpRequest, name: str | None) -> Project | None:
    return named_project(actor(request), name) if name else None


def _shown(rows: Sequence[Notice]) -> list[dict[str, Any]]:
    return [{**document_of(row), "state": row.state} for row in rows]
