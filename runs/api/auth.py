"""The caller: a bearer token, or a signed-in browser whose form or script carries the CSRF token; and what an operation
asks of them before it runs."""

import functools
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router, Status
from ninja.constants import NOT_SET
from ninja.errors import HttpError
from ninja.security import APIKeyCookie, HttpBearer
from ninja.utils import check_csrf

from runs.api.node_auth import NodeAuth
from runs.models import User
from runs.people.identity import second_factor
from runs.rights.access import admit, user_of_token
from runs.rights.access.operations import Rule, RuleKind
from runs.serving.rates import claim


class TokenAuth(HttpBearer):
    """``Authorization: Bearer <token>``."""

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        user = user_of_token(token, request.META.get("REMOTE_ADDR", ""))
        if user is not None:
            if second_factor.is_missing(user):
                raise HttpError(403, second_factor.SENTENCE)
            claim(person=user.pk, token=user.token.pk if user.token else "")
            request.user = user
        return user


class SessionAuth(APIKeyCookie):
    """The session of a browser. A request that came with a bearer token is never taken for the session's."""

    param_name = settings.SESSION_COOKIE_NAME

    def __call__(self, request: HttpRequest) -> User | None:
        return self.authenticate(request, None)

    def authenticate(self, request: HttpRequest, key: str | None) -> User | None:
        user = session_user(request)
        if user is not None and check_csrf(request) is not None:
            raise HttpError(403, "The CSRF token is missing or wrong.")
        if user is not None:
            claim(person=user.pk)
        return user


def session_user(request: HttpRequest) -> User | None:
    if "Authorization" in request.headers or isinstance(request.user, AnonymousUser) or not request.user.is_active:
        return None
    return request.user


def actor(request: HttpRequest) -> User:
    """Return who is asking, in a handler: whoever gets there has been let in."""
    assert isinstance(request.user, User)
    return request.user


def who(request: HttpRequest) -> User | None:
    """Return who is asking before anybody was let in; None when nobody is known."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return user_of_token(token) if scheme.lower() == "bearer" else session_user(request)


class Resource(Router):
    """Operations of a resource. Each wears ``@operation``, which says who may call it: without it the server does not
    start. Where ``response`` names one status alone, the answer has it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_decorator(_admitted, mode="operation")

    def add_api_operation(
        self, path: str, methods: list[str], view_func: Callable[..., Any], *, auth: Any = NOT_SET, **options: Any
    ) -> None:
        rule: Rule | None = getattr(view_func, "rule", None)
        if rule is None:
            raise TypeError(f"{methods[0]} {path} must wear @operation, which says who may call it")
        responses = options.get("response")
        is_sole = isinstance(responses, dict) and len(responses) == 1
        view_func.status = next(iter(responses)) if is_sole else None  # type: ignore[attr-defined, arg-type]
        super().add_api_operation(path, methods, view_func, auth=AUTH.get(rule.kind, auth), **options)


AUTH = {RuleKind.PUBLIC: None, RuleKind.NODE: NodeAuth()}  # of all others a person is asked


def _admitted(handler: Callable[..., Any]) -> Callable[..., Any]:
    rule: Rule = handler.rule  # type: ignore[attr-defined]
    status: int | None = handler.status  # type: ignore[attr-defined]

    @functools.wraps(handler)
    def handle(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        admit(request, rule)
        answer = handler(request, *args, **kwargs)
        return answer if status is None or isinstance(answer, HttpResponseBase) else Status(status, answer)

    return handle
