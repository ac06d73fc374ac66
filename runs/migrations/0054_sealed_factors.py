"""Seeds of second factors, and what identity providers gave for sessions, were locked with a key made from SECRET_KEY. They
go into envelopes, whose keys can be changed. A seed that does not open, since SECRET_KEY was another one then, stays as it
is: the factor did not work before either. A session whose tokens do not open ends at its next check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.db import migrations
from django.utils.crypto import salted_hmac

from runs.secrets.sealed import FACTOR_FIELDS, factor_place, open_text, provider_place, seal_text
from trainyard.contract.base import BadMessage, JsonObject, WireStruct, decode, encode
from trainyard.contract.locks import lock, unlock
from trainyard.contract.orders import Locked

SCOPE = "second factor"


class Hidden(WireStruct):
    """What was locked of a second factor."""

    text: str


def seal(apps: Any, editor: Any) -> None:
    for row, field, text in _factors(apps, editor):
        try:
            seed = unlock(_factor_lock(), SCOPE, Locked(text), Hidden).text
        except BadMessage:
            continue
        _put(row, field, seal_text(factor_place(row.user_id), seed))
    for row in _sessions(apps, editor):
        try:
            tokens = unlock(_session_lock(), f"{row.provider} {row.subject}", Locked(row.locked), JsonObject)
        except BadMessage:
            continue
        row.locked = seal_text(provider_place(row.provider, row.subject), encode(tokens))
        row.save(update_fields=["locked"])


def unseal(apps: Any, editor: Any) -> None:
    for row, field, text in _factors(apps, editor):
        if text.startswith("{"):
            seed = open_text(factor_place(row.user_id), text)
            _put(row, field, lock(_factor_lock(), SCOPE, Hidden(seed)).locked)
    for row in _sessions(apps, editor):
        if row.locked.startswith("{"):
            tokens = decode(
                open_text(provider_place(row.provider, row.subject), row.locked), JsonObject, is_secret=True
            )
            row.locked = lock(_session_lock(), f"{row.provider} {row.subject}", tokens).locked
            row.save(update_fields=["locked"])


def _put(row: Any, field: str, text: str) -> None:
    row.data = {**row.data, field: text}
    row.save(update_fields=["data"])


def _factors(apps: Any, editor: Any) -> Iterator[tuple[Any, str, str]]:
    for row in list(apps.get_model("mfa", "Authenticator").objects.using(editor.connection.alias)):
        for field in FACTOR_FIELDS:
            if row.data.get(field):
                yield row, field, row.data[field]


def _sessions(apps: Any, editor: Any) -> list[Any]:
    rows = apps.get_model("runs", "ProviderSession").objects.using(editor.connection.alias)
    return list(rows.exclude(locked=""))


def _factor_lock() -> str:
    return salted_hmac("trainyard second factors", "", secret=settings.SECRET_KEY, algorithm="sha256").hexdigest()


def _session_lock() -> str:
    return salted_hmac("trainyard provider sessions", "", secret=settings.SECRET_KEY, algorithm="sha256").hexdigest()


class Migration(migrations.Migration):
    dependencies = [("runs", "0047_sealed_texts"), ("mfa", "0003_authenticator_type_uniq")]

    operations = [migrations.RunPython(seal, unseal)]
