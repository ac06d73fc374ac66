"""`trainyard support FILE`: a zip for whoever helps: versions, settings, what `doctor --server` finds, numbers, and
the ends of logs. Secrets are masked in all of it: values that are known, and what looks like one."""

import argparse
import json
import os
import platform
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import distributions
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.utils import timezone

from dashboard.doctor import server_findings, tls_findings
from dashboard.home import home_path
from dashboard.up import database
from dashboard.up.checks import CannotStart

TAIL_BYTES = 2_000_000  # of each log
MASK = rb"[masked]"
SHORTEST = 6  # characters of a value that is masked wherever it stands
SECRET_NAME = re.compile("KEY|PASS|SECRET|TOKEN|HEADERS|CREDENTIAL", re.IGNORECASE)
# Settings whose values a helper needs; of others the names alone are in it.
SHOWN = re.compile(
    "TRAINYARD_(HOME|ISOLATION|URL)|PORT|HOST|NODES|INGEST_SHARDS|PUBLIC_URL|LOG_FORMAT|EMAIL_(HOST|PORT|TLS)|"
    "DATABASE_URL|REDIS_URL|NODES_REDIS_URL|FORWARDED_ALLOW_.*|.*_DAYS|.*_BYTES|.*_REGION"
)
# Tokens and links that sign in, passwords of URLs and headers, webhooks, JWTs, addresses of e-mail; then named values.
LIKE_SECRETS = re.compile(
    rb"(?P<head>\bty_(?:machine_)?|(?:sign-in|invitations|share)/|(?i:\b(?:bearer|basic|password)[\s=:]+))[^\s\"'/@&,]+|"
    rb"(?P<user>://[^\s/:@]{0,64}:)[^\s/@]{1,256}(?=@)|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+\.[\w.-]+|"
    rb"(?P<hook>\bhooks\.slack\.com/\w+/|\bdiscord(?:app)?\.com/api/(?:v\d+/)?webhooks/)[^\s\"'<>]+|"
    rb"\beyJ[\w-]{4,}\.[\w-]+\.[\w-]+"
)
NAMED_SECRETS = re.compile(  # "set" is what about.json says of settings
    rb"((?i:token|secret|password|passwd|api[_-]?key|access[_-]?key|sessionid|csrftoken|signature)\\?[\"']?\s*[=:]\s*)"
    rb"(?!\"set\")(?:(\\?[\"'])(?:\\.|(?!\2).){1,4096}?(?=\2|$)|[^\s\"'\\&;,{}]+)",
    re.MULTILINE,
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="trainyard support", description="Pack what helps those who help.")
    parser.add_argument("file", type=Path, help="where to write the zip")
    target = parser.parse_args(arguments).file
    try:
        database.set_up_django()
        values = known_secrets(home_path())
        with (
            os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle,
        ):
            for name, data in members(home_path()):
                bundle.writestr(name, masked(data, values))
            names = bundle.namelist()
    except (CannotStart, OSError) as error:
        print(f"Nothing was packed: {error}", file=sys.stderr)
        return 1
    print(f"{target} has {', '.join(names)}. Secrets are masked; read it before you send it.")
    return 0


def members(home: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each member; a part that cannot be read says why."""
    packages = {one.metadata["Name"]: one.version for one in distributions()}
    about = {"at": timezone.now().isoformat(), "system": platform.platform(), "python": sys.version}
    settings = {name: value if SHOWN.fullmatch(name) else "set" for name, value in sorted(os.environ.items())}
    yield "about.json", _json({**about, "packages": dict(sorted(packages.items())), "settings": settings})
    yield "findings.json", _json([asdict(one) for part in (server_findings, tls_findings) for one in part()])
    try:
        yield "numbers.txt", _numbers()
    except Exception as error:  # whatever is broken is why somebody helps
        yield "numbers.txt", f"{type(error).__name__}: {error}".encode()
    for path in sorted((home / "logs").glob("*.log*")):
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            yield f"logs/{path.name}", file.read()


def _numbers() -> bytes:
    """Return what /metrics has for an administrator."""
    from runs.models import Cluster, Run
    from runs.presenting.exposition import Exposition

    return Exposition(Cluster.objects.all(), Run.objects.all(), timezone.now()).text()


def known_secrets(home: Path) -> list[bytes]:
    """Return the values that stand nowhere in the bundle, the longest first."""
    found = [value for name, value in os.environ.items() if SECRET_NAME.search(name)]
    urls = [urlsplit(value).password or "" for name, value in os.environ.items() if name.endswith("URL")]
    found += [*urls, *map(unquote, urls)]
    for name in ("secret_key", "secrets.key"):
        if (home / name).is_file():
            found.append((home / name).read_text())
    parts = [part for value in found for part in (value, *re.split(r"[\s,:=\"']+", value))]
    return sorted({one.encode() for one in parts if len(one) >= SHORTEST}, key=len, reverse=True)


def masked(data: bytes, values: Sequence[bytes]) -> bytes:
    for value in values:
        data = data.replace(value, MASK)
    data = LIKE_SECRETS.sub(lambda found: (found["head"] or found["user"] or found["hook"] or b"") + MASK, data)
    return NAMED_SECRETS.sub(lambda found: found[1] + (found[2] or b"") + MASK, data)


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1, default=str).encode()


if __name__ == "__main__":
    sys.exit(main())
