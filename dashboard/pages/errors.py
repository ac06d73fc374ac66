"""Refusals that no view answered: in the frame, with a sentence that helps. (500.html stands alone: it may be the
database that broke.)"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from dashboard.pages.shared.frame import refusal


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
