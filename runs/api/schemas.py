"""Schemas of answers, made of the types that the server and its clients share: ``trainyard.contract.answers``."""

from collections.abc import Iterable
from datetime import datetime
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, NotRequired, Required, Union, get_args, get_origin, get_type_hints, is_typeddict

from django.db.models import Model
from msgspec import Meta
from ninja import Schema
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from runs.models import User
from runs.presenting.stamps import stamp
from trainyard.contract.answers.runs import RunDocument
from trainyard.contract.facts import TimeDocument


@cache
def schema_of(document: type[Any]) -> type[BaseModel]:
    """Return the schema of a TypedDict: each field is required, and described as its ``Meta`` says."""
    fields: dict[str, Any] = {}
    for name, hint in get_type_hints(document, include_extras=True).items():
        fields[name] = (_shape(hint), Field(description=_description(hint)))
    # The framework's Schema would ask each field as an attribute of an object: half the time of a list.
    config = ConfigDict(from_attributes=True)
    return create_model(f"{document.__name__}Out", __config__=config, __doc__=document.__doc__, **fields)


def _shape(hint: Any) -> Any:
    """Return the type with a schema in the place of each TypedDict."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (NotRequired, Required, Annotated):
        return _shape(arguments[0])
    if origin in (Union, UnionType):
        return reduce(or_, (_shape(one) for one in arguments))
    if origin is not None:
        return origin[tuple(_shape(one) for one in arguments)]
    return schema_of(hint) if is_typeddict(hint) else hint


def _description(hint: Any) -> str | None:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (NotRequired, Required):
        return _description(arguments[0])
    if origin is not Annotated:
        return None
    return next((one.description for one in arguments[1:] if isinstance(one, Meta)), None)


def _shown(value: Any) -> Any:
    """Return a time as its stamp, a person by their user name, another row by its name; text as it is."""
    if isinstance(value, datetime):
        return stamp(value)
    return getattr(value, "username" if isinstance(value, User) else "name") if isinstance(value, Model) else value


def document_of(row: Model, names: Iterable[str], **others: Any) -> Any:
    """Return these attributes of the row as answers show them, and ``others``, which it has under another name."""
    return {name: _shown(getattr(row, name)) for name in names if name not in others} | others


# Shapes that several resources share.

Shown = Annotated[str, BeforeValidator(_shown)]  # of an answer that is read from a row


class Body(Schema):
    """A request's body: what it does not know it refuses."""

    model_config = ConfigDict(extra="forbid")


class TimeOut(schema_of(TimeDocument)):  # type: ignore[misc]  # the fields are those of the contract
    """Where the time went, in seconds: the parts add up to `total_s`. What passed between an end and a restart by a
    person is not counted."""


class RunOut(schema_of(RunDocument)):  # type: ignore[misc]  # as above
    """A run."""
