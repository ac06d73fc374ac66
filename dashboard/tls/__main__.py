"""`trainyard tls init | show | renew | rotate | use`: certificates of the home, which a running server follows."""

import argparse
import os
import socket
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from dashboard.home import home_path, tls_folder
from dashboard.http import hosts
from dashboard.tls import folder
from runs.serving.certificates import Certificate, Unreadable, ending, served

RESTART = "A server that serves without TLS now must be started again."
FOLLOWS = "A running server shows it from the next connection on."


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    place, now = tls_folder(home_path()), datetime.now(UTC)
    try:
        if options.command != "show":
            change(options, place, now)
        return show(place, now)
    except (folder.BadCertificates, Unreadable, OSError) as error:
        print(error, file=sys.stderr)
        return 1


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="trainyard tls", description="Make and change the server's certificates.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    init = commands.add_parser("init", help="make an authority and a certificate; the server needs a new start")
    commands.add_parser("show", help="print names, ends and fingerprints; exit 1 where one ends within 30 days")
    renew = commands.add_parser("renew", help="make the next certificate by the same authority")
    rotate = commands.add_parser("rotate", help="make a new authority; the old one stays trusted until --finish")
    rotate.add_argument("--finish", action="store_true", help="trust the newest authority alone")
    for command in (init, renew, rotate):
        command.add_argument(
            "--name",
            action="append",
            default=[],
            metavar="NAME",
            help="a further host name or address of the server, besides those of this machine, HOST and PUBLIC_URL; "
            "may be repeated. Default for renew and rotate: the names that the certificate has",
        )
    use = commands.add_parser("use", help="serve with a certificate of another authority, as of a company")
    use.add_argument("--certificate", type=Path, required=True, metavar="FILE", help="the certificate and its chain")
    use.add_argument("--key", type=Path, required=True, metavar="FILE", help="its private key, without a password")
    use.add_argument("--ca", type=Path, metavar="FILE", help="whom nodes trust; default: their systems' authorities")
    return parser.parse_args(arguments)


def change(options: argparse.Namespace, place: Path, now: datetime) -> None:
    """Raises BadCertificates."""
    if options.command == "use":
        folder.bring(place, options.certificate, options.key, options.ca)
        print(f"{FOLLOWS} {RESTART}")
        return
    before = served(place)
    names = list(dict.fromkeys([*(options.name or (before.server.names if before else ())), *names_here()]))
    if options.command == "init":
        folder.begin(place, names, now)
        print("Start the server anew: it serves with TLS then. Nodes that are elsewhere join again.")
    elif options.command == "renew":
        folder.renew(place, names, now)
        print(FOLLOWS)
    elif options.finish:
        folder.finish(place, now)
        print("Only the newest authority is trusted. A node that was away since before the rotation must join again.")
    else:
        folder.rotate(place, names, now)
        print(f"{FOLLOWS} Nodes learn the new authority within a minute; `trainyard tls rotate --finish` ends the old.")


def names_here() -> list[str]:
    """Return the names and addresses by which this server may be called, without repeats."""
    host, public = os.environ.get("HOST") or "127.0.0.1", urlsplit(os.environ.get("PUBLIC_URL", "")).hostname
    here = [public, host, "localhost", "127.0.0.1", "::1", socket.gethostname().lower(), *sorted(hosts.own_addresses())]
    return list(dict.fromkeys(name.strip("[]") for name in here if name and name not in hosts.EVERY_ADDRESS))


def show(place: Path, now: datetime) -> int:
    found = served(place)
    if found is None:
        print(f"{place} has no certificates: this home is served without TLS. `trainyard tls init` makes them.")
        return 1
    for line in lines_of("Server", found.server, now):
        print(line)
    for number, authority in enumerate(found.authorities):
        for line in lines_of("Old authority" if number else "Authority", authority, now):
            print(line)
    if not found.authorities:
        print("Authority      that of the system of each node")
    if sentence := ending(found, now):
        print(sentence)
    return 1 if sentence else 0


def lines_of(title: str, one: Certificate, now: datetime) -> Iterator[str]:
    yield f"{title:<14} {one.subject}"
    if one.names:
        yield f"{'':<14} for {', '.join(one.names)}"
    yield f"{'':<14} until {one.ends_at:%Y-%m-%d}, {(one.ends_at - now).days} days"
    yield f"{'':<14} sha256 {one.fingerprint}"


if __name__ == "__main__":
    sys.exit(main())
