"""Fields for forms and documentation, in the order in which a person fills them."""

import types
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo as PydanticField

from trainyard.spec.models import KINDS
from trainyard.spec.values.fields import Group, Kind, Needs

GROUPS: tuple[Group, ...] = ("what", "where", "parallel", "train", "safety")


class FieldInfo(NamedTuple):
    """One field. ``default`` is None where the field is required; limits are inclusive unless ``is_above``."""

    path: str
    label: str
    help: str
    kind: Kind
    choices: tuple[str, ...]
    default: Any
    group: Group
    advanced: bool
    minimum: float | None
    maximum: float | None
    is_required: bool
    is_whole: bool  # a number without a fraction
    is_above: bool  # the minimum itself is not accepted
    tasks: tuple[str, ...]  # the KINDS of spec that have it
    needs: Needs | None  # without which nothing reads this field…
    needing: tuple[str, ...]  # …in specs of these KINDS


@cache
def fields_of(task: str) -> dict[str, FieldInfo]:
    """Return by path every field of the specs of one of the KINDS, as it is for them."""
    found = _walk(KINDS[task], "")
    return {info.path: info._replace(tasks=(task,), needing=(task,) if info.needs else ()) for info in found}


@cache
def form_fields() -> tuple[FieldInfo, ...]:
    """Return every field of any spec, ordered by group. Kinds that share a field may differ in its choices (all are
    returned), in its default and help (the first are), and in whether it needs another field."""
    found: dict[str, FieldInfo] = {}
    for task in KINDS:
        for info in fields_of(task).values():
            before = found.get(info.path)
            found[info.path] = info if before is None else _together(before, info)
    return tuple(info for group in GROUPS for info in found.values() if info.group == group)


def _together(first: FieldInfo, second: FieldInfo) -> FieldInfo:
    needs = first.needs or second.needs
    alike = second._replace(tasks=first.tasks, choices=first.choices, default=first.default, help=first.help)
    alike = alike._replace(needs=second.needs or needs, needing=first.needing)
    assert alike == first._replace(needs=needs), f"{first.path} is two different fields"
    return first._replace(
        tasks=(*first.tasks, *second.tasks),
        choices=tuple(dict.fromkeys((*first.choices, *second.choices))),
        needs=needs,
        needing=(*first.needing, *second.needing),
    )


def _walk(kind: type[BaseModel], above: str) -> list[FieldInfo]:
    found = []
    for name, field in kind.model_fields.items():
        path = f"{above}.{name}" if above else name
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found += _walk(field.annotation, path)
        else:
            found.append(_describe(path, field))
    return found


def _describe(path: str, field: PydanticField) -> FieldInfo:
    extra = field.json_schema_extra
    assert isinstance(extra, dict), f"{path} was not declared with field()"
    limits = {one: getattr(rule, one) for rule in field.metadata for one in ("ge", "gt", "le") if hasattr(rule, one)}
    kind: Kind = extra.get("kind") or _kind(field.annotation)  # type: ignore[assignment]  # field() wrote it
    return FieldInfo(
        path=path,
        label=field.title or path,
        help=field.description or "",
        kind=kind,
        choices=_choices(field.annotation),
        default=None
        if field.is_required()
        else _plain(field.get_default(call_default_factory=True, validated_data={})),
        group=extra["group"],  # type: ignore[arg-type]  # field() wrote it
        advanced=bool(extra["advanced"]),
        minimum=limits.get("ge", limits.get("gt")),
        maximum=limits.get("le"),
        is_required=field.is_required(),
        is_whole=field.annotation is int,
        is_above="gt" in limits,
        tasks=(),
        needs=Needs(**extra["needs"]) if "needs" in extra else None,  # type: ignore[arg-type]  # field() wrote it
        needing=(),
    )


def _plain(default: Any) -> Any:
    """Return a default as a document has it."""
    if isinstance(default, list):
        return [one.model_dump(mode="json") if isinstance(one, BaseModel) else one for one in default]
    return default


def _choices(annotation: Any) -> tuple[str, ...]:
    """Return the accepted values, or the entries that a list may have; nothing where they have no end."""
    if get_origin(annotation) is list:
        return _choices(get_args(annotation)[0])
    return tuple(map(str, get_args(annotation))) if get_origin(annotation) is Literal else ()


def _kind(annotation: Any) -> Kind:
    origin = get_origin(annotation)
    if origin is Literal:
        return "choice"
    if annotation in (int, float):
        return "number"
    if annotation is bool:
        return "bool"
    if origin is list:
        return "list"
    if origin is dict:
        return "map"
    assert origin not in (Union, types.UnionType, Annotated), "a field of two kinds names the one that the form shows"
    return "text"
