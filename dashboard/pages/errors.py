"""Refusals that no view answered: in the frame, with a sentence that helps. (500.html and 503.html stand alone: it may
be the database that broke.)"""

import sys

import structlog
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.request import UnreadablePostError
from django.template.loader import render_to_string
from django.views.defaults import server_error

from dashboard.pages.shared.frame import is_script, refusal
from runs.api.problems import database_away
from runs.rights.audit.recording import APIS
from runs.serving.database_away import RETRY_S, is_away, sentence_for

log = structlog.get_logger(__name__)

FORM = "application/x-www-form-urlencoded"
MAX_KEPT_CHARS = 200_000  # of a form, in the page that offers to send it again
SECRET_WORDS = ("password", "secret", "token")


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return refusal(
        request, 404, "There is nothing at this address, or nothing that you may see. It may have been deleted."
    )


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return refusal(request, 403, str(exception) or "Your role does not allow that.")


def stale_form(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without a valid token against forgery: most often the page was open while one signed in or out."""
    return refusal(
        request, 403, "This form is too old, or came from somewhere else. Open its page again and try once more."
    )


def failed(request: HttpRequest) -> HttpResponse:
    """Answer for an error of a view or a middleware. Nothing here asks the database: it may be what failed."""
    error = sys.exc_info()[1]
    if not is_away(error):
        return server_error(request)
    log.warning("page.database_away", path=request.path, method=request.method, error=str(error))
    # REST's views answer for themselves; this is of a middleware before them.
    answer = database_away(error) if request.path.startswith(APIS) else _database_away(request, sentence_for(error))
    answer["Retry-After"] = str(RETRY_S)
    answer["Cache-Control"] = "no-store"
    return answer


def _database_away(request: HttpRequest, sentence: str) -> HttpResponse:
    is_form = request.method == "POST"
    if is_script(request):
        kept = " What you typed is still here: send it again in a few seconds." if is_form else ""
        return JsonResponse({"sentence": sentence + kept}, status=503)
    context = {"sentence": sentence, "is_form": is_form, "fields": _fields(request) if is_form else None}
    return HttpResponse(render_to_string("503.html", {**context, "path": request.get_full_path()}), status=503)


def _fields(request: HttpRequest) -> list[tuple[str, str]] | None:
    """Return the fields of a form that can be sent again from a page. None: the browser alone can, since there are
    files in it, or a secret that is not written into a page, or more than a page should hold."""
    if request.content_type != FORM:
        return None
    try:
        fields = [(name, str(value)) for name, values in request.POST.lists() for value in values]
    except (SuspiciousOperation, UnreadablePostError):
        return None
    names = [name.lower() for name, _ in fields if name != "csrfmiddlewaretoken"]
    is_secret = any(word in name for name in names for word in SECRET_WORDS)
    return None if is_secret or sum(len(name) + len(value) for name, value in fields) > MAX_KEPT_CHARS else fields
