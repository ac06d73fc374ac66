"""`python -m dashboard.doctor [--cluster NAME]`: whether nodes reach this server as they should, and whether a cluster
can run what is launched on it; and what to mend."""

import argparse
import os
import socket
import ssl
import sys
from collections.abc import Iterator
from itertools import chain
from urllib.parse import urlsplit

import django

CONNECT_S = 5.0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="trainyard doctor", description="Say what keeps nodes from the server, or a cluster from training."
    )
    parser.add_argument("--cluster", metavar="NAME", help="the cluster to look at; default: the server's TLS alone")
    parser.add_argument(
        "--accept-cost", action="store_true", help="with --cluster, also run a short job where its machines are billed"
    )
    options = parser.parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    num_wrong = examine_tls()
    if options.cluster is None:
        return 1 if num_wrong else 0
    return examine(options.cluster, accepts_cost=options.accept_cost) or (1 if num_wrong else 0)


def examine_tls() -> int:
    """Print one line for each thing that is wrong with the certificates, or one that nothing is; return how many."""
    from django.conf import settings
    from django.utils import timezone

    from runs.serving import certificates
    from trainyard.rest.trust import certificates_in

    if not (settings.IS_TLS or settings.IS_TLS_SERVED):
        print(f"{'-':<7} {'TLS':<11} Served without TLS; `trainyard tls init` makes certificates.")
        return 0
    folder, url = settings.TLS_FOLDER, str(settings.PUBLIC_URL)
    is_ours = settings.IS_TLS_SERVED and settings.PROXY_AUTHORITIES is None
    wrong = certificates.problems(folder, url, timezone.now()) if is_ours else []
    trusted = certificates.bundle()
    # As it joins a node trusts the one authority that its token names, later all of them.
    wrong += connection_problems(url, "".join(certificates_in(trusted)[:1]))
    wrong += connection_problems(str(settings.VALKEY_TLS_URL), trusted)
    for sentence in dict.fromkeys(wrong):
        print(f"{'FAILED':<7} {'TLS':<11} {sentence}", flush=True)
    if not wrong:
        found = certificates.served(folder) if is_ours else None
        by = f"with a certificate until {found.server.ends_at:%Y-%m-%d}" if found else f"by a proxy at {url}"
        print(f"{'ok':<7} {'TLS':<11} Served {by}.", flush=True)
    return len(wrong)


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
    num_wrong = 0
    bringing = allocating_engine(cluster.engine) if accepts_cost else None
    for finding in chain(engine_of(cluster).examine(cluster), bringing.examine_billed(cluster) if bringing else ()):
        mark = {True: "ok", False: "FAILED", None: "-"}[finding.is_fine]
        print(f"{mark:<7} {finding.step:<11} {finding.sentence}", flush=True)
        if finding.is_fine is False:
            num_wrong += 1
            if finding.advice:
                print(f"{'':<19} {finding.advice}", flush=True)
    print(f"Cluster {name} is ready." if not num_wrong else f"Cluster {name} is not ready: mend what FAILED.")
    return 1 if num_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
