"""Notices which rows an act changes, by Django's signals, and keeps the fields that differ, without secret values."""

import hashlib
import json
import re
from datetime import datetime
from typing import Any

from django.contrib.auth.models import Group, Permission
from django.db.models import Model
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_save

from runs.models import AuditEntry
from runs.models.people import Project
from runs.rights.audit.facts import Values, current_act

# Rows that the machinery writes in the course of an act; what a person changed is in others.
MACHINERY = frozenset(
    ("auditentry", "audithead", "event", "heldslot", "idempotencykey", "workspace", "runtime", "attempt", "placement",
     "allocation", "preflight", "gonerun", "runcode", "secretuse", "secretversion", "startterms", "dependency",
     "reportversion", "reportcomment", "newevent", "notice")
)  # fmt: skip
OURS = "runs"
SECRET = re.compile(r"password|secret|key$|digest|locked|cipher|wrapped|seed|recovery", re.IGNORECASE)
UNINTERESTING = frozenset(
    ("last_login", "last_used_at", "used_at", "seen_at", "health", "inventory", "estimate", "found_by", "changed_at",
     "limit_notices")
)  # fmt: skip
HIDDEN = "…"
MAX_CHARACTERS = 500


def watch_rows() -> None:
    """Connect the signals, once, as the app is ready."""
    pre_save.connect(_before_save, dispatch_uid="audit")
    post_save.connect(_after_save, dispatch_uid="audit")
    post_delete.connect(_after_delete, dispatch_uid="audit")
    m2m_changed.connect(_after_many, dispatch_uid="audit")


def row_name(row: Model) -> str:
    return f"{row._meta.model_name} {row.pk}"


def values_of(row: Model) -> Values:
    """Return the row's fields as they are kept: secrets hidden, long values by their digest."""
    return {
        column.attname: _kept(column.name, getattr(row, column.attname))
        for column in row._meta.concrete_fields
        if column.name not in UNINTERESTING and column.attname not in row.get_deferred_fields()
    }


def difference(before: Values, after: Values) -> tuple[Values, Values]:
    """Return of both the fields that differ."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    was, now = ({name: row[name] for name in names if name in row} for row in (before, after))
    return was, now


def _kept(name: str, value: Any) -> Any:
    if value in (None, "", {}, []) or isinstance(value, bool | int):
        return value
    if SECRET.search(name):  # a fingerprint would do to try guesses with, so only the fact stays
        return HIDDEN
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str | float):
        text = str(value)
        return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}{HIDDEN}"
    text = json.dumps(value, sort_keys=True, default=str)
    # A spec's variables and a cluster's settings may hold what somebody should have kept as a secret.
    return {"sha256": hashlib.sha256(text.encode()).hexdigest(), "bytes": len(text.encode())}


def _is_watched(sender: Any) -> bool:
    if current_act() is None or not isinstance(sender, type) or not issubclass(sender, Model):
        return False
    is_ours = sender._meta.app_label == OURS and sender._meta.model_name not in MACHINERY
    return is_ours or sender in (Group, Permission)


def _before_save(sender: Any, instance: Model, raw: bool = False, **_: Any) -> None:
    if raw or instance._state.adding or not _is_watched(sender):
        return
    stored = sender._base_manager.filter(pk=instance.pk).first()
    instance.__dict__["_audited_before"] = values_of(stored) if stored is not None else {}


def _after_save(sender: Any, instance: Model, created: bool, raw: bool = False, **_: Any) -> None:
    act = current_act()
    if raw or act is None or not _is_watched(sender):
        return
    before = instance.__dict__.pop("_audited_before", {})
    changed = difference({} if created else before, values_of(instance))
    if any(changed):
        act.changed(row_name(instance), *changed)
    if created and not act.object and isinstance(project := getattr(instance, "project", None), Project):
        act.object, act.project = row_name(instance), project.name  # it is not in the address: what it made is


def _after_delete(sender: Any, instance: Model, **_: Any) -> None:
    act = current_act()
    if act is not None and _is_watched(sender):
        act.changed(row_name(instance), values_of(instance), {})


def _after_many(
    sender: Any, instance: Any, action: str, model: Any, pk_set: set[Any] | None, reverse: bool, **_: Any
) -> None:
    act = current_act()
    if act is None or not action.startswith("post_") or not _is_watched(type(instance)):
        return
    change = action.removeprefix("post_")
    named = sorted(str(key) for key in pk_set or ())[:50]
    act.changed(row_name(instance), {}, {f"{model._meta.model_name}s {change}": named})


assert AuditEntry._meta.model_name in MACHINERY
