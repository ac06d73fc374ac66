"""``/notices``: what the person's bell has, and the rules by which notices are sent."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema
from ninja import Status as Answer

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.paging import ListQuery, Page, page
from runs.api.schemas import Body, Shown
from runs.models import NoticeRule, Project
from runs.models.notices import NoticeKind, Where
from runs.notices.destinations import document_of
from runs.rights.access import Permission, get_project
from runs.rights.access.operations import operation, own

router = Resource(tags=["notices"])


class NoticeRuleChange(Body):
    destination: str | None = Field(
        None, description="a URL, an address of e-mail, a routing key or a subscription as JSON; absent: it stays"
    )
    kinds: dict[NoticeKind, int | None] | None = Field(None, description="with their numbers; null: those at first")
    only_mine: bool | None = Field(None, description="of runs and sweeps only those that you launched")
    every: str | None = Field(None, description="hour or day: sent together then; empty: at once")


class NoticeRuleIn(NoticeRuleChange):
    where: Where
    kinds: dict[NoticeKind, int | None]
    project: str | None = Field(None, description="whose rule it is, for its owners; absent: yours")


class NoticeRuleOut(Schema):
    id: str
    where: str
    project: str | None = Field(validation_alias="project_id")
    shown: str = Field(description="of the destination: a host or an address")
    kinds: dict[str, int]
    only_mine: bool
    every: str
    created_at: Shown
    key: str = Field(description="by which a webhook's messages are signed: shown once, after its URL was given")


class TestIn(Body):
    rule: str = Field(description="the id of a rule of yours, or of a project that you own")


@router.get("/notices", response=Page[dict[str, Any]], summary="My notices, the newest first")
@operation(own(Permission.ACCOUNT_READ))
def find(request: HttpRequest, query: Query[ListQuery]) -> Page[dict[str, Any]]:
    """Each as a webhook gets it, with its `state`: `unread` or `read`."""
    rows = actions.visible_notices(actor(request))
    return page(rows, lambda found: [{**document_of(row), "state": row.state} for row in found], sort="-id",
                cursor=query.cursor, limit=query.limit)  # fmt: skip


@router.post("/notices/test", response={202: None}, summary="Send a test by a rule")
@operation(own(Permission.ACCOUNT_MANAGE))
def test(request: HttpRequest, body: TestIn) -> Answer[None]:
    """Example: `{"rule": "abc"}`"""
    actions.do_notice_rule(actor=actor(request), rule_id=body.rule, verb="test")
    return Answer(202, None)


@router.get("/notices/rules", response=Page[NoticeRuleOut], summary="Rules of notices")
@operation(own(Permission.ACCOUNT_READ))
def rules(request: HttpRequest, query: Query[ListQuery], project: str | None = None) -> Page[Any]:
    """Mine, or those of a project, for its owners."""
    found = actions.notice_rules(actor=actor(request), project=_project(request, project))
    return page(found, list, sort="created_at", cursor=query.cursor, limit=query.limit)


@router.post("/notices/rules", response={201: NoticeRuleOut}, summary="Add a place for notices")
@operation(own(Permission.ACCOUNT_MANAGE))
def create(request: HttpRequest, body: NoticeRuleIn, response: HttpResponse) -> NoticeRule:
    """`page` is your bell, which is always there: it is changed. Example: `{"where": "slack", "destination":
    "https://hooks.slack.com/services/T0/B0/x", "kinds": {"failed": null, "waits": 60}, "project": "vision"}`"""
    response["Cache-Control"] = "no-store"
    return actions.save_notice_rule(
        actor=actor(request), project=_project(request, body.project), where=body.where, kinds=body.kinds,
        only_mine=bool(body.only_mine), destination=body.destination or "", every=body.every or "",
    )  # fmt: skip


@router.get("/notices/rules/{rule_id}", response=NoticeRuleOut, summary="A rule of notices")
@operation(own(Permission.ACCOUNT_READ))
def rule(request: HttpRequest, rule_id: str) -> NoticeRule:
    return actions.get_notice_rule(actor=actor(request), rule_id=rule_id)


@router.patch("/notices/rules/{rule_id}", response=NoticeRuleOut, summary="Change a rule of notices")
@operation(own(Permission.ACCOUNT_MANAGE))
def change(request: HttpRequest, rule_id: str, body: NoticeRuleChange, response: HttpResponse) -> NoticeRule:
    """What is not named stays; another destination of a webhook has another `key`. Example: `{"kinds": {"lost":
    null}}`"""
    response["Cache-Control"] = "no-store"
    rule = actions.get_notice_rule(actor=actor(request), rule_id=rule_id)
    given = {"destination": None, "kinds": rule.kinds, "only_mine": rule.only_mine, "every": rule.every}
    given |= body.dict(exclude_none=True) | {"project": rule.project, "where": rule.where, "rule": rule}
    return actions.save_notice_rule(actor=actor(request), **given)


@router.delete("/notices/rules/{rule_id}", response={204: None}, summary="Delete a rule, with its notices")
@operation(own(Permission.ACCOUNT_MANAGE))
def delete(request: HttpRequest, rule_id: str) -> None:
    actions.do_notice_rule(actor=actor(request), rule_id=rule_id, verb="delete")


def _project(request: HttpRequest, name: str | None) -> Project | None:
    return get_project(actor(request), name, Permission.OWNERS_MANAGE) if name is not None else None
