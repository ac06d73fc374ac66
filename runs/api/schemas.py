"""Schemas of answers, made of the types that the server and its clients share: ``trainyard.contract.answers``."""

from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, NotRequired, Required, Union, get_args, get_origin, get_type_hints, is_typeddict

from msgspec import Meta, Struct
from ninja import Schema
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from runs.presenting.stamps import shown
from trainyard.contract.answers.runs import RunDocument
from trainyard.contract.facts import TimeDocument


@cache
def schema_of(document: Any, name: str = "", without: tuple[str, ...] = ()) -> type[BaseModel]:
    """Return the schema of a type with named fields: each is required, and described as its ``Meta`` says."""
    fields: dict[str, Any] = {}
    for field, hint in get_type_hints(document, include_extras=True).items():
        if field not in without:
            fields[field] = (_shape(hint), Field(description=_description(hint)))
    # The framework's Schema would ask each field as an attribute of an object: half the time of a list.
    config = ConfigDict(from_attributes=True)
    return create_model(name or f"{document.__name__}Out", __config__=config, __doc__=document.__doc__, **fields)


def _shape(hint: Any) -> Any:
    """Return the type with a schema in the place of each type with named fields."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (NotRequired, Required, Annotated):
        return _shape(arguments[0])
    if origin in (Union, UnionType):
        return reduce(or_, (_shape(one) for one in arguments))
    if origin is not None:
        return origin[tuple(_shape(one) for one in arguments)]
    return schema_of(hint) if is_typeddict(hint) or (isinstance(hint, type) and issubclass(hint, Struct)) else hint


def _description(hint: Any) -> str | None:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (NotRequired, Required):
        return _description(arguments[0])
    if origin is not Annotated:
        return None
    return next((one.description for one in arguments[1:] if isinstance(one, Meta)), None)


# Shapes that several resources share.

Shown = Annotated[str, BeforeValidator(shown)]  # of an answer that is read from a row


class Body(Schema):
    """A request's body: what it does not know it refuses."""

    model_config = ConfigDict(extra="forbid")


class TimeOut(schema_of(TimeDocument)):  # type: ignore[misc]  # the fields are those of the contract
    """Where the time went, in seconds: the parts add up to `total_s`. What passed between an end and a restart by a
    person is not counted."""


class RunOut(schema_of(RunDocument)):  # type: ignore[misc]  # as above
    """A run."""
