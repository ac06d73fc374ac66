"""Sources of packages on this node: pip's own configuration, in the words of each installer.

uv reads none of pip's files. A mirror or a folder of wheels that the node's administrator has set for pip counts for it
all the same. Addresses may hold a password: they travel in the environment of the installer, never on a command line.
"""

import configparser
import os
from collections.abc import Mapping
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

NAMES = (
    *("index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "keyring-provider"),
    *("cert", "client-cert", "proxy", "timeout", "default-timeout", "retries", "pre"),
)
SECTIONS = ("global", "install")  # a later one wins, as in pip
TRUE = ("1", "true", "yes", "on")
LEAST_TIMEOUT_S = 30


def configuration(environment: Mapping[str, str], prefix: Path) -> dict[str, str]:
    """Return pip's settings about indexes, by name. ``prefix`` is the folder of the interpreter's environment."""
    found: dict[str, str] = {}
    for path in _files(environment, prefix):
        found |= _read(path)
    for name in NAMES:
        if value := environment.get(f"PIP_{name.replace('-', '_').upper()}"):
            found[name] = value
    return found


def _files(environment: Mapping[str, str], prefix: Path) -> list[Path]:
    """Return the places of pip's files, the weakest first."""
    own = environment.get("PIP_CONFIG_FILE", "")
    if own == os.devnull:
        return []
    home = Path(environment.get("HOME") or "~").expanduser()
    system = environment.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    return [
        *(Path(folder) / "pip" / "pip.conf" for folder in system.split(os.pathsep) if folder),
        Path("/etc/pip.conf"),
        home / ".pip" / "pip.conf",
        Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf",
        prefix / "pip.conf",
        *([Path(own)] if own else []),
    ]


def _read(path: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, configparser.Error, UnicodeDecodeError) as error:
        log.warning("pip_configuration.unreadable", path=str(path), error=str(error))
        return {}
    found: dict[str, str] = {}
    for section in SECTIONS:
        if parser.has_section(section):
            given = {name.replace("_", "-"): value for name, value in parser.items(section)}
            found |= {name: value for name, value in given.items() if name in NAMES}
    return found


def for_pip(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings as variables of pip."""
    own = {f"PIP_{name.replace('-', '_').upper()}": " ".join(value.split()) for name, value in settings.items()}
    return {**own, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def for_uv(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings as variables of uv. As pip does, it looks at all indexes and takes the best version."""
    found = {
        "UV_DEFAULT_INDEX": settings.get("index-url", ""),
        "UV_INDEX": " ".join(settings.get("extra-index-url", "").split()),
        "UV_FIND_LINKS": ",".join(settings.get("find-links", "").split()),
        "UV_INSECURE_HOST": " ".join(settings.get("trusted-host", "").split()),
        "UV_KEYRING_PROVIDER": settings.get("keyring-provider", ""),
        "UV_NO_INDEX": "1" if settings.get("no-index", "").lower() in TRUE else "",
        "SSL_CERT_FILE": settings.get("cert", ""),
        "ALL_PROXY": settings.get("proxy", ""),
        "UV_HTTP_TIMEOUT": _timeout(settings),
    }
    return {**{name: value for name, value in found.items() if value}, "UV_INDEX_STRATEGY": "unsafe-best-match"}


def _timeout(settings: Mapping[str, str]) -> str:
    given = settings.get("timeout") or settings.get("default-timeout") or ""
    try:
        return str(max(LEAST_TIMEOUT_S, int(float(given)))) if given else ""
    except ValueError:
        return ""
