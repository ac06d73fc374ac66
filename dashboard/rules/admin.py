"""The rules of the administration: Django's own pages for staff, by table."""

from __future__ import annotations

import re

from runs.rights.access.operations import PUBLIC, Rule, RuleKind

STAFF, TABLE, READ_ONLY = Rule(RuleKind.STAFF), Rule(RuleKind.TABLE), Rule(RuleKind.READ_ONLY)
# People change rows of these tables there. Every other table is read only, whoever asks.
CHANGED_BY_HAND = frozenset(
    {
        "auth/group",
        "runs/cluster",
        "runs/clusterrole",
        "runs/customrole",
        "runs/grouprole",
        "runs/membership",
        "runs/project",
        "runs/user",
    }
)
OF_THE_SITE: dict[str, Rule] = {
    "/admin/": STAFF,
    "/admin/autocomplete/": TABLE,
    "/admin/jsi18n/": STAFF,
    "/admin/logout/": PUBLIC,
    "/admin/password_change/done/": STAFF,
    "/admin/r/<content_type_id>/<object_id>/": STAFF,
    "/admin/search/": STAFF,
}
DELETED_ELSEWHERE = frozenset({"runs/user"})  # people are erased on their page under People
_OF_A_TABLE = re.compile(r"/admin/(?P<table>\w+/\w+)/(?P<page>[<>\w/]*)")
_READING = frozenset({"", "<object_id>/history/"})


def admin_rule(method: str, path: str) -> Rule | None:
    """Return the rule of a page of the administration; None for one that nobody gave a rule."""
    if path in OF_THE_SITE:
        is_refused = path == "/admin/autocomplete/" and method == "POST"  # before anybody is asked
        return STAFF if is_refused else OF_THE_SITE[path]
    found = _OF_A_TABLE.fullmatch(path)
    if found is None:
        return None
    page = found["page"]
    if page == "<object_id>/":
        return STAFF  # leads to the page of the row, which asks
    if page in _READING or (page == "<object_id>/change/" and method == "GET"):
        return TABLE
    if page == "<object_id>/delete/" and found["table"] in DELETED_ELSEWHERE:
        return READ_ONLY
    if page in ("add/", "<object_id>/change/", "<object_id>/delete/", "<id>/password/"):
        return TABLE if found["table"] in CHANGED_BY_HAND else READ_ONLY
    return None
