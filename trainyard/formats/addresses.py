"""``TRAINYARD_DATA_HOSTS``: the machines of its own network from which a node fetches data, and the server code."""

import ipaddress
import os
import socket
from urllib.parse import urlsplit

HOSTS = "TRAINYARD_DATA_HOSTS"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# Of protocols (and of metadata of a cloud), and what was site-local once: Python takes most of both for the internet's.
INSIDE: tuple[Network, ...] = (ipaddress.IPv4Network("192.0.0.0/24"), ipaddress.IPv6Network("fec0::/10"))
WITH_HOSTS = ("http", "https", "ftp", "sftp")  # whose URLs name a machine, and no bucket


def url_problem(url: str) -> str:
    """Return what is wrong with a URL's host at first sight, without asking anybody for its address."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return ""
    if parts.scheme not in WITH_HOSTS:
        return ""
    if host == "localhost" or host.endswith(".localhost"):
        host = "127.0.0.1"
    try:
        problem = address_problem(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return ""
    return f"{url} {problem}" if problem else ""


def address_problem(
    address: Address, what: str = "data is fetched from", whose: str = "the node", hosts: str = HOSTS
) -> str:
    """Return why the address is not connected to; empty where it is. ``hosts``: the setting that allows it."""
    if not any(map(_is_inside, (address, *_embedded(address)))) or _is_allowed(address, hosts):
        return ""
    words = f"{what} there where {hosts} of {whose} names it"
    return f"leads to {address}, which is an address of this machine or of its own network: {words}"


def _is_inside(address: Address) -> bool:
    """Return whether it is none of the internet's: private, loopback, link-local (cloud metadata too), reserved, a
    group."""
    if isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped is not None or address in NAT64):
        return False  # the IPv4 address in it is looked at
    is_named = any(address in one for one in INSIDE)
    return is_named or not address.is_global or address.is_multicast or address.is_reserved


def _embedded(address: Address) -> list[Address]:
    """The IPv4 addresses that an IPv6 address stands for."""
    if not isinstance(address, ipaddress.IPv6Address):
        return []
    found: list[Address | None] = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in NAT64:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]


def _is_allowed(address: Address, hosts: str) -> bool:
    same = {address, *_embedded(address)}
    for word in os.environ.get(hosts, "").replace(",", " ").split():
        try:
            networks: list[Network] = [ipaddress.ip_network(word, strict=False)]
        except ValueError:
            networks = [ipaddress.ip_network(one) for one in _resolved(word)]
        if any(one in network for network in networks for one in same if one.version == network.version):
            return True
    return False


def _resolved(host: str) -> set[str]:
    try:
        return {str(found[4][0]).partition("%")[0] for found in socket.getaddrinfo(host, None)}
    except OSError:
        return set()
