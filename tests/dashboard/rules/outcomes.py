"""Outcome of a request, by what its route declares and by who calls. Nothing here decides: runs.rights.access does."""

from __future__ import annotations

from enum import StrEnum

from runs.models import Role
from runs.rights.access import PERMISSIONS_OF, Permission
from runs.rights.access.operations import Rule, RuleKind


class Caller(StrEnum):
    """A caller's relation to the project and cluster of the thing that is asked for."""

    ANONYMOUS = "anonymous"
    REVOKED_TOKEN = "revoked token"
    OUTSIDER = "outsider"
    WITHOUT_SCOPE = "without scope"  # an administrator's token that has every scope but the one that is needed
    VIEWER = "viewer"
    AUDITOR = "auditor"
    MEMBER = "member"
    MAINTAINER = "maintainer"
    OWNER = "owner"
    OPERATOR = "operator"  # of clusters: staff, in no project
    ADMINISTRATOR = "administrator"


class CallOutcome(StrEnum):
    ALLOWED = "yes"
    UNKNOWN = "sign in"  # 401, or the way to the sign-in
    HIDDEN = "not there"  # 404
    FORBIDDEN = "no"  # 403
    FAILED = "failed"  # 500: never wanted


ROLE_OF = {Caller(role.value): role for role in reversed(Role)}  # who may least comes first
OF_THE_ADMIN = frozenset({RuleKind.STAFF, RuleKind.TABLE, RuleKind.READ_ONLY})
STAFF = frozenset({Caller.OPERATOR, Caller.ADMINISTRATOR})
TOKENS_ALONE = frozenset({Caller.REVOKED_TOKEN, Caller.WITHOUT_SCOPE})  # pages take sessions


def outcome(rule: Rule, caller: Caller) -> CallOutcome:
    if rule.kind == RuleKind.PUBLIC:
        return CallOutcome.ALLOWED
    if rule.kind in OF_THE_ADMIN:
        return _in_the_admin(rule, caller)
    if rule.kind in (RuleKind.NODE, RuleKind.SCIM) or caller in (Caller.ANONYMOUS, Caller.REVOKED_TOKEN):
        return CallOutcome.UNKNOWN
    if rule.kind == RuleKind.SIGNED_IN:
        return CallOutcome.ALLOWED
    refused = CallOutcome.HIDDEN if rule.hides else CallOutcome.FORBIDDEN
    if caller == Caller.WITHOUT_SCOPE:
        return refused
    if caller == Caller.ADMINISTRATOR or rule.kind in (RuleKind.LIST, RuleKind.ACCOUNT):
        return CallOutcome.ALLOWED
    if rule.kind in (RuleKind.AUDIT, RuleKind.AUDITORS_OF_ALL):
        holds = rule.kind == RuleKind.AUDIT and caller in ROLE_OF and rule.permission in PERMISSIONS_OF[ROLE_OF[caller]]
        return CallOutcome.ALLOWED if holds or caller == Caller.OPERATOR else refused
    if rule.kind == RuleKind.GROUP:
        return CallOutcome.FORBIDDEN if caller in ROLE_OF else CallOutcome.HIDDEN
    if rule.kind in (RuleKind.ADMINISTRATOR, RuleKind.SITE):
        is_operators = caller == Caller.OPERATOR and rule.permission == Permission.CLUSTERS_MANAGE
        return CallOutcome.ALLOWED if is_operators else refused
    if caller == Caller.OPERATOR:
        return CallOutcome.ALLOWED if rule.kind == RuleKind.MACHINE else CallOutcome.HIDDEN
    if caller == Caller.OUTSIDER:
        return CallOutcome.HIDDEN
    return CallOutcome.ALLOWED if rule.permission in PERMISSIONS_OF[ROLE_OF[caller]] else refused


def _in_the_admin(rule: Rule, caller: Caller) -> CallOutcome:
    """Return the outcome in the admin. Only staff get past the sign-in. The operator has no permission of Django's."""
    if caller not in STAFF:
        return CallOutcome.UNKNOWN
    if rule.kind == RuleKind.STAFF or (rule.kind == RuleKind.TABLE and caller == Caller.ADMINISTRATOR):
        return CallOutcome.ALLOWED
    return CallOutcome.FORBIDDEN
