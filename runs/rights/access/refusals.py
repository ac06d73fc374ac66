"""The two refusals. Both are Django's own too, so that a view that forgets to catch them still refuses."""

from django.core.exceptions import PermissionDenied
from django.http import Http404


class NotFound(Http404):
    """There is no such thing, or none that this person may see."""


class Forbidden(PermissionDenied):
    """This person may see the thing, but not do this with it."""
