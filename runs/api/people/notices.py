"""``/notices``: what the person's bell has, and a test of a rule by which notices are sent."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Field, Query
from ninja import Status as Answer

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.paging import ListQuery, Page, page
from runs.api.schemas import Body
from runs.notices.destinations import document_of
from runs.rights.access import Permission
from runs.rights.access.operations import operation, own

router = Resource(tags=["notices"])


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
