"""The one place through which acts of people come: pages, REST and the admin; the terminal uses REST."""

from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve
from django.utils.decorators import sync_and_async_middleware

from runs.rights.audit.facts import Act, acting
from runs.rights.audit.recording import action_name, finish, is_act, object_name, subjects_of


@sync_and_async_middleware
def audit(get_response: Any) -> Any:
    """Record each act with what came of it, behind the view and before the answer leaves."""

    async def answer_async(request: HttpRequest) -> HttpResponseBase:
        act, kwargs = _begin(request)
        subjects = await sync_to_async(subjects_of)(kwargs) if act.is_wanted else []
        with acting(act):
            response: HttpResponseBase = await get_response(request)
        if _is_due(act, response):
            await sync_to_async(finish)(act, request, response, subjects)
        return response

    def answer(request: HttpRequest) -> HttpResponseBase:
        act, kwargs = _begin(request)
        subjects = subjects_of(kwargs) if act.is_wanted else []
        with acting(act):
            response: HttpResponseBase = get_response(request)
        if _is_due(act, response):
            finish(act, request, response, subjects)
        return response

    return answer_async if iscoroutinefunction(get_response) else answer


def _begin(request: HttpRequest) -> tuple[Act, dict[str, Any]]:
    try:
        match = resolve(request.path_info)
    except Resolver404:
        return Act(is_wanted=False), {}
    what = str(request.method), match.route
    return Act(action=action_name(*what), object=object_name(match.kwargs), is_wanted=is_act(*what)), match.kwargs


def _is_due(act: Act, response: HttpResponseBase) -> bool:
    return act.is_wanted or response.status_code == 403
