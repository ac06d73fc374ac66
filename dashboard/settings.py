"""Settings of the site, control and ingest. Everything comes from the environment or from TRAINYARD_HOME."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from django.core.management.utils import get_random_secret_key

BASE_DIR = Path(__file__).resolve().parent.parent
HOME = Path(os.environ.get("TRAINYARD_HOME", ".trainyard")).resolve()


def secret_key() -> str:
    """Return the key of this home, made at the first start and kept in a file that only its owner reads."""
    if key := os.environ.get("SECRET_KEY"):
        return key
    path = HOME / "secret_key"
    if not path.exists():
        HOME.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(get_random_secret_key())
    return path.read_text()


def sqlite(name: str) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": HOME / name,
        "OPTIONS": {
            "timeout": 10,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA auto_vacuum=INCREMENTAL;PRAGMA journal_mode=WAL;"
            + ("PRAGMA synchronous=FULL;" if name == "metrics.sqlite3" else "PRAGMA synchronous=NORMAL;"),
        },
    }


def postgresql(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"connect_timeout": 5},
    }


SECRET_KEY = secret_key()
DEBUG = False
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]").split(",")

INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "runs",
    "runs.metrics",
    "dashboard",
]
AUTH_USER_MODEL = "runs.User"
ROOT_URLCONF = "dashboard.urls"
ASGI_APPLICATION = "dashboard.asgi.application"

if url := os.environ.get("DATABASE_URL"):
    DATABASES = {"default": postgresql(url)}
    METRICS_DATABASE = "default"
else:
    DATABASES = {"default": sqlite("trainyard.sqlite3"), "metrics": sqlite("metrics.sqlite3")}
    METRICS_DATABASE = "metrics"
DATABASE_ROUTERS = ["dashboard.routers.MetricsRouter"]

REDIS_URL = os.environ.get("REDIS_URL", f"unix://{HOME}/valkey/valkey.sock")
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL], "prefix": "trainyard-push"},
    }
}

USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "/static/"
