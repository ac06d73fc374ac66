"""`python -m dashboard.doctor [--cluster NAME | --server]`: whether nodes reach this server as they should, whether a
cluster can run what is launched on it, or whether the server itself is well; and what to mend."""

import argparse
import json
import os
import socket
import ssl
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

from dashboard.backup import PRODUCT
from dashboard.home import home_path
from dashboard.up import database
from dashboard.up.checks import CannotStart

CONNECT_S = 5.0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="trainyard doctor", description="Say what keeps nodes from the server, or a cluster from training."
    )
    parser.add_argument("--cluster", metavar="NAME", help="the cluster to look at; default: the server's TLS alone")
    parser.add_argument("--server", action="store_true", help="look at the server itself")
    parser.add_argument("--json", action="store_true", help="with --server, print a JSON list")
    parser.add_argument(
        "--accept-cost", action="store_true", help="with --cluster, also run a short job where its machines are billed"
    )
    options = parser.parse_args(arguments)
    os.environ.setdefault("PUBLIC_URL", str(database.stored(home_path() / database.CLIENT).get("url", "")))  # of `up`
    try:
        database.set_up_django()
    except CannotStart as error:  # settings that contradict
        print(error, file=sys.stderr)
        return 1
    if options.server:
        return examine_server(as_json=options.json)
    num_wrong = examine_tls()
    code = 0 if options.cluster is None else examine(options.cluster, accepts_cost=options.accept_cost)
    return code or (1 if num_wrong else 0)


def examine_server(*, as_json: bool) -> int:
    """Print a line for each thing, or JSON; return 0 where nothing failed."""
    words = {True: "ok", False: "FAILED", None: "warning"}
    found = [{**asdict(one), "state": words[one.is_fine]} for one in chain(server_findings(), tls_findings())]
    if as_json:
        print(json.dumps([{name: one[name] for name in ("step", "state", "sentence", "advice")} for one in found]))
    for one in [] if as_json else found:
        print(f"{one['state']:<7} {one['step']:<11} {one['sentence']}{' ' if one['advice'] else ''}{one['advice']}")
    return 1 if any(one["is_fine"] is False for one in found) else 0


def server_findings() -> Iterator[Any]:
    from dashboard import server_findings as known
    from runs.engines.findings import Finding

    home = home_path()
    try:
        behind = database.open_database(only_look=True)
        advice = "Run `trainyard migrate`." * bool(behind)
        yield Finding("database", not behind, f"It answers, and {behind} migrations are missing.", advice)
        if not behind:
            yield known.of_secrets()
    except CannotStart as error:
        yield Finding("database", False, str(error))
    yield from known.of_server()
    yield Finding("sandbox", True, database.isolation(home))
    yield from known.of_mail()
    if os.environ.get("DATABASE_URL") and (home / PRODUCT).exists():
        yield Finding("settings", None, f"{home / PRODUCT} is there, and not used.", "DATABASE_URL goes first.")
    given, of_home = os.environ.get("SECRET_KEY"), home / "secret_key"
    if given and of_home.exists() and of_home.read_text() != given:
        yield Finding("settings", None, "SECRET_KEY is not the one in the home.", "Remove the one that is not used.")


def tls_findings() -> Iterator[Any]:
    from django.conf import settings
    from django.utils import timezone

    from runs.engines.findings import Finding
    from runs.serving import certificates
    from trainyard.rest.trust import certificates_in

    if not (settings.IS_TLS or settings.IS_TLS_SERVED):
        yield Finding("TLS", None, "Served without TLS; `trainyard tls init` makes certificates.")
        return
    folder, url = settings.TLS_FOLDER, str(settings.PUBLIC_URL)
    is_ours = settings.IS_TLS_SERVED and settings.PROXY_AUTHORITIES is None
    wrong = certificates.problems(folder, url, timezone.now()) if is_ours else []
    trusted = certificates.bundle()
    # As it joins a node trusts the one authority that its token names, later all of them.
    wrong += connection_problems(url, "".join(certificates_in(trusted)[:1]))
    wrong += connection_problems(str(settings.VALKEY_TLS_URL), trusted)
    yield from (Finding("TLS", False, sentence) for sentence in dict.fromkeys(wrong))
    if not wrong:
        found = certificates.served(folder) if is_ours else None
        by = f"with a certificate until {found.server.ends_at:%Y-%m-%d}" if found else f"by a proxy at {url}"
        yield Finding("TLS", True, f"Served {by}.")


def examine_tls() -> int:
    """Print one line for each thing that is wrong with the certificates, or one that nothing is; return how many."""
    return sum(map(_say, tls_findings()))


def _say(finding: Any) -> bool:
    """Print it, and return whether it is wrong."""
    mark = {True: "ok", False: "FAILED", None: "-"}[finding.is_fine]
    print(f"{mark:<7} {finding.step:<11} {finding.sentence}", flush=True)
    if finding.is_fine is False and finding.advice:
        print(f"{'':<19} {finding.advice}", flush=True)
    return finding.is_fine is False


def connection_problems(url: str, trusted: str) -> Iterator[str]:
    """Connect as a node does, and yield what it would not accept. A server that is not running is not wrong.
    ``trusted``: authorities, as PEM; empty: those of the system."""
    from trainyard.rest.http_clients import known_authorities
    from trainyard.rest.trust import sentence_of

    parts = urlsplit(url)
    if not parts.hostname:
        return
    place = f"{parts.hostname}:{parts.port or 443}"
    try:
        context = ssl.create_default_context(cadata=trusted) if trusted else known_authorities()
        with socket.create_connection((parts.hostname, parts.port or 443), CONNECT_S) as connection:
            context.wrap_socket(connection, server_hostname=parts.hostname).close()
    except ssl.SSLError as error:
        yield sentence_of(error, place) or f"{place}: {error}."
    except OSError as error:
        print(f"{'-':<7} {'TLS':<11} Nobody answers at {place}: {error.strerror or error}.", flush=True)


def examine(name: str, *, accepts_cost: bool = False) -> int:
    """Print one line for each step; return 0 where all is well."""
    from runs.engines import allocating_engine, engine_of  # Django is ready by now
    from runs.models import Cluster

    cluster = Cluster.objects.filter(name=name).first()
    if cluster is None:
        known = ", ".join(Cluster.objects.values_list("name", flat=True)) or "none"
        print(f"There is no cluster {name!r}; there are: {known}.", file=sys.stderr)
        return 1
    bringing = allocating_engine(cluster.engine) if accepts_cost else None
    findings = chain(engine_of(cluster).examine(cluster), bringing.examine_billed(cluster) if bringing else ())
    num_wrong = sum(map(_say, findings))
    print(f"Cluster {name} is ready." if not num_wrong else f"Cluster {name} is not ready: mend what FAILED.")
    return 1 if num_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
