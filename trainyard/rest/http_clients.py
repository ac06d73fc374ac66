"""Every HTTP client of Trainyard, and by which proxy its requests go.

The loopback is never reached by a proxy, and the Trainyard server only by the one that TRAINYARD_PROXY names: proxies
of a company's network do not know either. Elsewhere HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY hold, in small
letters, too. Libraries with clients of their own read the environment: ``spare_loopback`` gives them the same rule.
"""

import functools
import ipaddress
import os
import ssl
from collections.abc import Callable, MutableMapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

import httpx

VARIABLE = "TRAINYARD_PROXY"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Proxy(NamedTuple):
    """A proxy, and the variable that names it."""

    url: str
    variable: str

    @classmethod
    def named(cls, value: str, variable: str) -> "Proxy":
        return cls(value if "://" in value else f"http://{value}", variable)

    def __str__(self) -> str:
        """Name it without its password."""
        try:
            parts = urlsplit(self.url)
            address = parts._replace(netloc=parts.netloc.rpartition("@")[2], path="").geturl()
        except ValueError:
            address = "without a valid address"
        return f"the proxy {address} ({self.variable})"


Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Route = Callable[[httpx.URL], Proxy | None]


def server_client(**options: Any) -> httpx.Client:
    """Return a client for the Trainyard server. Options are those of ``httpx.Client``."""
    return _client(_way_to_server, options)


def outside_client(**options: Any) -> httpx.Client:
    """Return a client for other services. Options are those of ``httpx.Client``."""
    return _client(_way_outside, options)


def direct_client(**options: Any) -> httpx.Client:
    """Return a client that uses no proxy, for a host whose address was checked. Options are as above."""
    return _client(lambda _: None, options)


@functools.cache
def known_authorities() -> ssl.SSLContext:
    """Return the context that trusts the authorities of the machine, where a company's are, and those of certifi."""
    context = httpx.create_ssl_context()
    context.load_default_certs()
    return context


def why_not(error: Exception) -> str:
    """Return what went wrong on the way, with the proxy's name. Texts of other errors may quote what was sent."""
    return (isinstance(error, httpx.TransportError) and str(error)) or type(error).__name__


def spare_loopback(environment: MutableMapping[str, str]) -> None:
    """Except the loopback from the proxies that the environment names, for libraries and child processes."""
    if not any(name.lower() in ("http_proxy", "https_proxy", "all_proxy") for name in environment):
        return
    found = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    named = [word.strip() for word in found.split(",") if word.strip()]
    value = ",".join([*named, *(host for host in LOOPBACK if host not in named)])
    if "*" not in named:
        environment.update(no_proxy=value, NO_PROXY=value)


def _client(route: Route, options: dict[str, Any]) -> httpx.Client:
    return httpx.Client(transport=_Routed(route, options.pop("verify", True)), **options)


class _Routed(httpx.BaseTransport):
    """Sends each request by the proxy of its address, or by none. An error says which proxy it was."""

    def __init__(self, route: Route, verify: Any) -> None:
        self._route, self._verify = route, verify
        self._transports: dict[tuple[str, str], httpx.HTTPTransport] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        proxy = self._route(request.url)
        try:
            return self._transport(request.url.scheme, proxy).handle_request(request)
        except httpx.TransportError as error:
            found = f", through {proxy}" if proxy else _unused_proxy(self._route, request.url)
            if not found:
                raise
            raise type(error)(f"{str(error) or type(error).__name__}{found}", request=request) from error

    def close(self) -> None:
        for one in self._transports.values():
            one.close()

    def _transport(self, scheme: str, proxy: Proxy | None) -> httpx.HTTPTransport:
        key = scheme, proxy.url if proxy else ""
        if key not in self._transports:
            verify = self._verify
            if verify is True:  # reading authorities takes tens of milliseconds, which plain HTTP need not
                verify = known_authorities() if scheme == "https" else False
            try:
                self._transports[key] = httpx.HTTPTransport(verify=verify, proxy=key[1] or None)
            except ImportError:
                raise httpx.ProxyError("SOCKS needs the package socksio: pip install socksio") from None
            except (ValueError, httpx.InvalidURL):
                raise httpx.ProxyError("a proxy's address begins with http://, https:// or socks5://") from None
        return self._transports[key]


def _way_to_server(url: httpx.URL) -> Proxy | None:
    found = os.environ.get(VARIABLE, "")
    return Proxy.named(found, VARIABLE) if found and not _is_loopback(url.host) else None


def _way_outside(url: httpx.URL) -> Proxy | None:
    proxies = getproxies_environment()
    if _is_loopback(url.host) or _is_excepted(url, proxies.get("no", "")):
        return None
    scheme = next((one for one in (url.scheme, "all") if proxies.get(one)), "")
    return Proxy.named(proxies[scheme], f"{scheme.upper()}_PROXY") if scheme else None


def _unused_proxy(route: Route, url: httpx.URL) -> str:
    """Return what to add where the server is not reached on a machine that may only use a proxy."""
    other = None if route is not _way_to_server else _way_outside(url)
    return f"; it was asked without {other}: {VARIABLE} names a proxy for the server" if other else ""


def _is_loopback(host: str) -> bool:
    network = _network(host)
    return network.is_loopback if network else host == "localhost" or host.endswith(".localhost")


def _is_excepted(url: httpx.URL, names: str) -> bool:
    own = _network(url.host)
    for word in (one.strip().lower().lstrip(".") for one in names.split(",")):
        if word and any(f".{host}".endswith(f".{word}") for host in (url.host, f"{url.host}:{url.port}")):
            return True
        if word == "*" or (own and (network := _network(word)) and own.network_address in network):
            return True
    return False


def _network(word: str) -> Network | None:
    """Return the addresses that the word stands for, of an address that one alone; None where it is a name."""
    try:
        return ipaddress.ip_network(word.strip("[]"), strict=False)
    except ValueError:
        return None
