"""The two refusals. Both are Django's own too, so that a view that forgets to catch them still refuses."""

from typing import TypeVar

from django.core.exceptions import PermissionDenied
from django.http import Http404

Thing = TypeVar("Thing")


class NotFound(Http404):
    """There is no such thing, or none that this person may see."""


class Forbidden(PermissionDenied):
    """This person may see the thing, but not do this with it."""


def or_not_found(thing: Thing | None, sentence: str) -> Thing:
    """Return the thing. Raises NotFound with the sentence where there is none."""
    if thing is None:
        raise NotFound(sentence)
    return thing
