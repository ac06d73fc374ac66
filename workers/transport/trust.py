"""Authorities that vouch for the server and its Valkey: a file in the node's home, which follows the server's."""

import os
import ssl
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import httpx

from trainyard.rest.http_clients import server_client
from trainyard.rest.trust import AUTHORITIES, VARIABLE, certificates_in, context_of, fingerprint_of, sentence_of
from trainyard.spooling.plain_files import write_private
from workers.transport.node_config import CannotStart

ADDRESS = "/api/v1/authorities"
TIMEOUT = httpx.Timeout(30.0, connect=5.0)


class UnknownAuthority(CannotStart):
    """The server does not show the authority that the join token names."""


class Trust:
    """The authorities of one node's home. Without the file, those of the system."""

    def __init__(self, home: Path) -> None:
        self.path = home / AUTHORITIES
        self._context: ssl.SSLContext | bool = True
        self._read_at: int | None = None

    @property
    def text(self) -> str:
        try:
            return self.path.read_text()
        except OSError:
            return ""

    def verify(self) -> ssl.SSLContext | bool:
        """Return what httpx takes as ``verify``, read anew where the file has changed."""
        try:
            changed_at = self.path.stat().st_mtime_ns
        except OSError:
            return True
        if changed_at != self._read_at:
            self._context = context_of(self.path)
            self._read_at = changed_at
        return self._context

    def follow(self, authorities: str) -> bool:
        """Take what the server says over a connection that was trusted. Returns whether it is news."""
        if not certificates_in(authorities) or authorities == self.text:
            return False
        write_private(self.path, authorities)
        return True

    def take_given(self) -> None:
        """Take the file that TRAINYARD_CA names: of a node on the server's own machine. Raises CannotStart."""
        if not (given := os.environ.get(VARIABLE)):
            return
        try:
            self.follow(Path(given).read_text())
        except OSError as error:
            raise CannotStart(f"{VARIABLE} is {given}, which cannot be read: {error.strerror}.") from error

    def meet(self, server: str, fingerprint: str) -> None:
        """Learn the authority with this fingerprint from the server itself, unless it is known: whoever else answered
        could not show it. Raises CannotStart."""
        if any(_has(one, fingerprint) for one in certificates_in(self.text)):
            return
        if not server.startswith("https://"):
            raise CannotStart(
                f"The join token is for a server with TLS: its address begins with https://, not {server}."
            )
        try:  # Nothing is trusted yet, and nothing secret is sent.
            with server_client(verify=False, timeout=TIMEOUT) as client:
                offered = certificates_in(client.get(server + ADDRESS).text)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = sentence_of(error, server) or f"The server {server} cannot be reached: {str(error).rstrip('.')}."
            raise CannotStart(why) from error
        known = [one for one in offered if _has(one, fingerprint)]
        if not known:
            raise UnknownAuthority(
                f"{server} is not the server that made this join token, or its authority was replaced since: "
                f"none of its authorities has the fingerprint {fingerprint}. Make another token."
            )
        self.follow(known[0])

    def valkey_url(self, url: str) -> str:
        """Return the address of Valkey with the file to trust, as redis-py and kombu read it."""
        parts = urlsplit(url)
        query = [*parse_qsl(parts.query), ("ssl_cert_reqs", "required")]
        if self.path.exists():
            query.append(("ssl_ca_certs", str(self.path)))
        return parts._replace(query=urlencode(query, quote_via=quote)).geturl()


def _has(certificate: str, fingerprint: str) -> bool:
    try:
        return fingerprint_of(certificate) == fingerprint
    except ValueError:
        return False
