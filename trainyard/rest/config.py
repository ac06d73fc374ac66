"""Address of the server and our token: the environment, else ``client.toml`` in this machine's home of Trainyard."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class NotConfigured(RuntimeError):
    """No server, or no token, is configured."""


class Config(NamedTuple):
    url: str
    token: str


def home(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder with all state of this machine's Trainyard."""
    return Path(environ.get("TRAINYARD_HOME") or ".trainyard")


def load(environ: Mapping[str, str] = os.environ) -> Config:
    """Return TRAINYARD_URL and TRAINYARD_TOKEN, and from ``client.toml`` what they leave out. Raises NotConfigured."""
    path = home(environ) / "client.toml"
    written = _read(path)
    url = environ.get("TRAINYARD_URL") or written.get("url", "")
    token = environ.get("TRAINYARD_TOKEN", "")
    # The token of the file is for the server of the file: no other one gets to see it.
    if not token and url.rstrip("/") == written.get("url", "").rstrip("/"):
        token = written.get("token", "")
    if not url:
        raise NotConfigured(f"no server is known: start one with `trainyard up`, or set TRAINYARD_URL (no {path})")
    if not token:
        raise NotConfigured(f"no token for {url}: set TRAINYARD_TOKEN")
    return Config(url.rstrip("/"), token)


def renewed_token(url: str, token: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the token as it is now for the server at ``url``; the old one where there is no other."""
    try:
        found = load(environ)
    except NotConfigured:
        return token
    return found.token if found.url == url else token


def _read(path: Path) -> dict[str, str]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise NotConfigured(f"{path} cannot be read: {error}") from None
    return {name: value for name, value in content.items() if isinstance(value, str)}
