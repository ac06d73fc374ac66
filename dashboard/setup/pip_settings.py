"""pip's settings about indexes on this machine, translated for the fast installer.

The installer (uv) does not read pip's settings; without this a company's mirror, or a CPU wheel of torch that
lies at hand, would be missed.
"""

from __future__ import annotations

import ast

# Settings of one value and of many, with the flag that says the same.
SINGLE = {"index-url": "--default-index", "keyring-provider": "--keyring-provider"}
MANY = {"extra-index-url": "--index", "find-links": "--find-links", "trusted-host": "--allow-insecure-host"}
SECTIONS = ("global", "install", ":env:")  # a later one wins, as in pip


def parse(listing: str) -> dict[str, str]:
    """Settings by name from what `pip config list` prints: lines such as `global.find-links='/opt/wheels'`."""
    found: dict[str, str] = {}
    for section in SECTIONS:
        for line in listing.splitlines():
            name, _, value = line.partition("=")
            if name.startswith(section + "."):
                found[name[len(section) + 1 :].replace("_", "-")] = _unquote(value)
    return found


def _unquote(value: str) -> str:
    try:
        return str(ast.literal_eval(value))
    except (SyntaxError, ValueError):
        return value


def as_flags(settings: dict[str, str], with_links: bool = True) -> list[str]:
    """The same indexes and folders as flags. `with_links=False` leaves folders of wheels out."""
    flags = ["--no-config"]
    for name, flag in SINGLE.items():
        if settings.get(name):
            flags += [flag, settings[name]]
    for name, flag in MANY.items():
        if name == "find-links" and not with_links:
            continue
        for value in settings.get(name, "").split():
            flags += [flag, value]
    if settings.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        flags.append("--no-index")
    # pip looks at all indexes and takes the best; every file of ours is pinned by hash, so that is safe here.
    return [*flags, "--index-strategy", "unsafe-best-match"]


def as_environment(settings: dict[str, str]) -> dict[str, str]:
    """Certificates, proxy and patience as environment variables."""
    changes: dict[str, str] = {}
    if settings.get("cert"):
        changes["SSL_CERT_FILE"] = settings["cert"]
    if settings.get("proxy"):
        changes["ALL_PROXY"] = settings["proxy"]
    if settings.get("timeout") or settings.get("default-timeout"):
        seconds = settings.get("timeout") or settings["default-timeout"]
        changes["UV_HTTP_TIMEOUT"] = str(max(30, int(float(seconds))))
    return changes
