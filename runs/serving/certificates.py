"""The certificates that this server serves with, and what others trust it by. `trainyard tls` makes the files."""

import contextlib
import hashlib
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from django.conf import settings
from django.utils import timezone

from trainyard.contract.calls import pinned
from trainyard.rest.trust import AUTHORITIES, SERVER, certificates_in, fingerprint_of

OWN_KEY = "ca-key.pem"
SOON = timedelta(days=30)


class Certificate(NamedTuple):
    """``fingerprint``: SHA-256 of the certificate, 64 hex digits."""

    subject: str
    names: tuple[str, ...]
    ends_at: datetime
    fingerprint: str


class Served(NamedTuple):
    """``authorities``: those that nodes trust, the newest first; none where they trust those of their systems."""

    server: Certificate
    authorities: tuple[Certificate, ...]
    is_own: bool


class Unreadable(ValueError):
    """The message is a sentence."""


def served(folder: Path) -> Served | None:
    """Return what the folder serves with, None where it has no certificates. Raises Unreadable."""
    chain = _read(folder / SERVER)
    if not chain:
        return None
    authorities = tuple(map(_facts, _read(folder / AUTHORITIES)))
    return Served(_facts(chain[0]), authorities, (folder / OWN_KEY).exists())


def bundle() -> str:
    """Return the authorities that nodes trust, as PEM: those that vouch for a proxy in front, then ours. Empty where
    those of their systems will do."""
    places = [settings.PROXY_AUTHORITIES, settings.TLS_FOLDER / AUTHORITIES if settings.IS_TLS_SERVED else None]
    found: list[str] = []
    for place in filter(None, places):
        with contextlib.suppress(OSError):
            found += certificates_in(place.read_text())
    return "".join(dict.fromkeys(found))


def fingerprint() -> str:
    """Return that of the authority by which a node knows the server as it joins; empty without one."""
    found = certificates_in(bundle())
    return fingerprint_of(found[0]) if found else ""


def pin(token: str) -> str:
    """Return the join token with the fingerprint of the authority: whoever joins knows it from the first contact on."""
    found = fingerprint()
    return pinned(token, found) if found else token


def warning(now: datetime | None = None) -> str:
    """Return a sentence where a certificate has ended or ends soon; empty otherwise."""
    if not settings.IS_TLS_SERVED:
        return ""
    try:
        found = served(settings.TLS_FOLDER)
    except Unreadable as error:
        return str(error)
    if found is None:
        return f"{settings.TLS_FOLDER} has no certificate any more: connections that begin now are refused."
    return ending(found, now or timezone.now())


def ending(found: Served, now: datetime) -> str:
    """Return which certificate has ended or ends soon, and what to do; empty where none does."""
    first = min((found.server, *found.authorities[:1]), key=lambda one: one.ends_at)
    left = first.ends_at - now
    if left > SOON:
        return ""
    verb = "renew" if first is found.server else "rotate"
    advice = (
        f"`trainyard tls {verb}` makes the next one." if found.is_own else "`trainyard tls use` takes the next one."
    )
    what = "server's certificate" if first is found.server else "authority's certificate"
    if left <= timedelta(0):
        return f"The {what} ended on {first.ends_at:%Y-%m-%d}: nodes and browsers refuse this server. {advice}"
    days = f"{left.days} day{'s'[: left.days != 1]}"
    return f"The {what} ends on {first.ends_at:%Y-%m-%d}, in {days}. {advice}"


def problems(folder: Path, url: str, now: datetime) -> list[str]:
    """Return what is wrong with the certificates for a server at this address, in sentences."""
    try:
        found = served(folder)
        chain, authorities = _read(folder / SERVER), _read(folder / AUTHORITIES)
    except Unreadable as error:
        return [str(error)]
    if found is None:
        return []
    host = urlsplit(url).hostname or ""
    wrong = []
    if sentence := ending(found, now):
        wrong.append(sentence)
    if not _covers(found.server.names, host):
        names = ", ".join(found.server.names)
        wrong.append(f"The certificate is for {names}, and not for {host}, by which nodes and people call this server.")
    if authorities and not _leads_to(chain, authorities):
        wrong.append(f"No authority in {folder / AUTHORITIES} has signed the certificate: nodes would refuse it.")
    return wrong


def names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return (*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress)))


def _covers(names: tuple[str, ...], host: str) -> bool:
    host = host.lower()
    wildcard = f"*.{host.partition('.')[2]}"
    return any(name.lower() in (host, wildcard) for name in names)


def _leads_to(chain: list[x509.Certificate], authorities: list[x509.Certificate]) -> bool:
    """Return whether signatures lead from the first certificate over others of the chain to an authority."""
    reached = [chain[0]]
    for one in reached:  # it grows meanwhile
        if any(_has_signed(authority, one) for authority in authorities):
            return True
        reached += [other for other in chain if other not in reached and _has_signed(other, one)]
    return False


def _has_signed(issuer: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except Exception:  # each kind of key has errors of its own; none of them is a signature that fits
        return False
    return True


def _facts(certificate: x509.Certificate) -> Certificate:
    return Certificate(
        certificate.subject.rfc4514_string(),
        names_of(certificate),
        certificate.not_valid_after_utc,
        hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest(),
    )


def _read(path: Path) -> list[x509.Certificate]:
    try:
        text = path.read_bytes()
        return x509.load_pem_x509_certificates(text) if b"BEGIN CERTIFICATE" in text else []
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise Unreadable(f"The certificates in {path} cannot be read: {error}") from error
