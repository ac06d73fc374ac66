"""Names of this server: the names it answers to, and the URL that people open."""

import pwd
import socket
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from runs.interactive.addresses import ProxyOrigin
from trainyard.rest.trust import certificates_in

EVERY_ADDRESS = ("0.0.0.0", "::")
THIS_MACHINE = ("127.0.0.1", "localhost", "[::1]")
VALKEY_TLS_PORT = 6380


def url(host: str, port: int, *, is_tls: bool = False) -> str:
    """Return the URL by which a browser on this machine reaches ``host``."""
    if host in EVERY_ADDRESS:
        host = "127.0.0.1"
    return f"{'https' if is_tls else 'http'}://{bracketed(host)}:{port}"


def public_url(given: str) -> str:
    """Return the address that people type, without a slash behind it. Raises ValueError where it has more than a name
    and a port."""
    try:
        parts = urlsplit(given.rstrip("/"))
        is_whole = port_of(given) is not None and parts == parts._replace(path="", query="", fragment="")
        if parts.scheme in ("http", "https") and parts.hostname and is_whole and "@" not in parts.netloc:
            return parts.geturl()
    except ValueError:  # of a port that is no number, and the like
        pass
    raise ValueError(
        f"PUBLIC_URL is {given!r}; it is http:// or https://, a name and a port where there is one, such as "
        "https://trainyard.example.org. The site has a name of its own: it is not served below a path."
    )


def port_of(public_url: str) -> int:
    parts = urlsplit(public_url)
    return (443 if parts.scheme == "https" else 80) if parts.port is None else parts.port


def valkey_url(public_url: str, port: str) -> str:
    """Return the address with TLS at which nodes on other machines reach the embedded Valkey."""
    return f"rediss://{bracketed(urlsplit(public_url).hostname or '')}:{port or VALKEY_TLS_PORT}/0"


def proxy_authorities(given: str, public_url: str) -> Path | None:
    """Return the file of authorities that vouch for a proxy in front of us; None where it is called without TLS. Raises
    ValueError, which says what is wrong with what was ``given``."""
    if not given or not public_url.startswith("https://"):
        return None
    try:
        text = Path(given).read_text()
    except (OSError, UnicodeError) as error:
        raise ValueError(f"TRAINYARD_CA is {given!r}, which cannot be read: {error}") from error
    if not certificates_in(text):
        raise ValueError(f"TRAINYARD_CA is {given!r}, which holds no certificate (PEM).")
    return Path(given)


def allowed(host: str, public_url: str, more: str) -> list[str]:
    """Return the Host headers that are answered; any other is a 400, so that nobody binds a name of theirs to us.

    A server that listens on every address answers to each address and to the machine's own name. ``more`` is a list
    with commas.
    """
    names = {*THIS_MACHINE, bracketed(host), urlsplit(public_url).hostname or "", *more.split(",")}
    if host in EVERY_ADDRESS:
        names |= {socket.gethostname().lower(), *own_addresses()}
    return sorted({name.strip() for name in names} - {"", *EVERY_ADDRESS, "[::]"})


def proxy_users(text: str) -> frozenset[int]:
    """Return the numbers of users of this machine, who are given by name or number, separated by commas. Raises
    ValueError."""
    found = set()
    for word in filter(None, map(str.strip, text.split(","))):
        try:
            found.add(int(word) if word.isascii() and word.isdigit() and len(word) < 11 else pwd.getpwnam(word).pw_uid)
        except KeyError:
            raise ValueError(f"FORWARDED_ALLOW_USERS names {word!r}, and this machine has no such user.") from None
    return frozenset(found)


def proxy_origin(given: str, public_url: str, port: str) -> str:
    """Return the origins of apps of runs, ``scheme://*.domain:port``, empty where none are served.

    On a machine's own address they are names below ``localhost``, which browsers know without anybody's help. Raises
    ValueError, which says what is wrong with what was ``given``.
    """
    site = urlsplit(public_url).hostname or ""
    if not given:
        is_here = public_url.startswith("http://") and bracketed(site) in THIS_MACHINE
        return f"http://*.localhost:{port}" if is_here and port not in ("", "0") else ""
    try:
        origin = ProxyOrigin.parse(given)
    except ValueError as error:
        raise ValueError(f"TRAINYARD_PROXY_ORIGIN is {given!r}: {error}.") from error
    if origin.shares_cookies_with(site):
        raise ValueError(
            f"TRAINYARD_PROXY_ORIGIN is {given!r}: what users serve there could set cookies for the site at {site}. "
            "Take a domain of which the site is no part, best one that holds nothing else."
        )
    return given


def own_addresses() -> set[str]:
    kinds = (socket.AF_INET, socket.AF_INET6)
    addresses = (one for of_card in psutil.net_if_addrs().values() for one in of_card if one.family in kinds)
    return {bracketed(one.address.split("%")[0]) for one in addresses}


def bracketed(host: str) -> str:
    """IPv6 addresses stand in brackets wherever a port may follow."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
