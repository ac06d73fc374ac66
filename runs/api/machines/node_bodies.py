"""Bodies and answers of nodes' calls: the types of trainyard.contract, read and written by msgspec."""

from __future__ import annotations

import hashlib
from typing import TypeVar

import msgspec
from django.http import HttpRequest, HttpResponse
from ninja.errors import HttpError, ValidationError

from runs.api.openapi import body_of
from trainyard.contract.base import BadDocument, JsonObject, WireStruct, decode, encode

T = TypeVar("T")


def read_body(request: HttpRequest, kind: type[T], *, is_secret: bool = False) -> T:
    """Return the JSON of the request as its type. Raises ValidationError, which quotes a wrong value unless it
    ``is_secret``."""
    try:
        return decode(request.body, kind, is_secret=is_secret, takes_nan=False)
    except BadDocument as error:
        path, _, message = str(error).partition(": ")
        raise _invalid("" if path == "the document" else path, message or str(error)) from error


def read_sealed_body(request: HttpRequest, kind: type[T]) -> T:
    """Return the body that the node sealed. Raises HttpError for another one, and what ``read_body`` raises."""
    if hashlib.sha256(request.body).hexdigest() != request.sealed_digest:  # type: ignore[attr-defined]
        raise HttpError(401, "The body is not the one that was sealed.")
    return read_body(request, kind)


def answer_with(document: WireStruct, status: int = 200) -> HttpResponse:
    return HttpResponse(encode(document), status=status, content_type="application/json")


def described(
    body: type[WireStruct] | None = None, answer: type[WireStruct] | None = None, status: int = 200
) -> JsonObject:
    """Return ``openapi_extra`` of a handler that reads ``body`` and answers with ``answer``."""
    found: JsonObject = body_of(msgspec.json.schema(body)) if body is not None else {}
    if answer is not None:
        content = {"application/json": {"schema": msgspec.json.schema(answer)}}
        found["responses"] = {status: {"content": content}}
    return found


def _invalid(path: str, message: str) -> ValidationError:
    return ValidationError([{"loc": ("body", "body", path) if path else ("body",), "msg": message}])
