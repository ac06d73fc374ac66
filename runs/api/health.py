"""``/health``: whether this process lives, and whether what it stands on answers. Needs no login and tells no more."""

from __future__ import annotations

import time
from typing import Any, cast

from django.db import DatabaseError, connections
from django.http import HttpRequest, HttpResponse
from ninja import Field, Router, Schema
from ninja import Status as Answer
from redis.exceptions import RedisError

from runs.reconcile.loop import TICK_KEY
from runs.transport import redis

router = Router(tags=["health"])

TICK_LIMIT_S = 15.0


class Health(Schema):
    live: bool
    ready: bool = Field(description="the database and Valkey answer, and control ticks")
    database: bool
    valkey: bool
    control: bool
    control_tick_age_s: float | None


@router.get("/health", response={200: Health, 503: Health}, auth=None)
def health(request: HttpRequest, response: HttpResponse) -> Any:
    database = _database_answers()
    valkey, tick_age_s = _valkey()
    control = tick_age_s is not None and tick_age_s <= TICK_LIMIT_S
    ready = database and valkey and control
    response["Cache-Control"] = "no-store"
    document = {
        "live": True,
        "ready": ready,
        "database": database,
        "valkey": valkey,
        "control": control,
        "control_tick_age_s": tick_age_s,
    }
    return Answer(200 if ready else 503, document)


def _database_answers() -> bool:
    try:
        for alias in connections:
            with connections[alias].cursor() as cursor:
                cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True


def _valkey() -> tuple[bool, float | None]:
    try:
        last = cast("bytes | None", redis().get(TICK_KEY))
    except (RedisError, OSError):
        return False, None
    return True, None if last is None else round(max(0.0, time.time() - float(last)), 1)
