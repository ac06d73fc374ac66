"""The folder `tls` of a home: what the server serves with, and what others trust it by.

`server.pem` has the server's key and its chain in one file, so that one step replaces both. `ca.pem` has the
authorities that nodes trust, the newest first. `ca-key.pem` is there only where the authority is Trainyard's own, and
`cross.pem` where an older authority is still trusted: its signatures on its successors.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from dashboard.home import make_private, write_private
from dashboard.tls.authority import (
    Authority,
    issue,
    new_authority,
    private_pem,
    public_pem,
    read_authority,
    signed_by,
)
from runs.serving.certificates import OWN_KEY, names_of
from trainyard.rest.trust import AUTHORITIES, SERVER

CROSS = "cross.pem"


class BadCertificates(ValueError):
    """The message is a sentence for the person at the terminal."""


def begin(folder: Path, names: Sequence[str], now: datetime) -> None:
    """Make an authority and a certificate. Raises BadCertificates where there are some."""
    if (folder / SERVER).exists():
        raise BadCertificates(f"{folder} has certificates: `trainyard tls renew` or `rotate` makes the next ones.")
    make_private(folder)
    authority = new_authority(now)
    write_private(folder / OWN_KEY, private_pem(authority.key))
    write_private(folder / AUTHORITIES, public_pem(authority.certificate))
    _serve(folder, authority, names, [], now)


def renew(folder: Path, names: Sequence[str], now: datetime) -> None:
    """Make the next certificate by the same authority, for the names of now. Raises BadCertificates."""
    _serve(folder, _authority(folder), names or _served_names(folder), _read(folder / CROSS), now)


def rotate(folder: Path, names: Sequence[str], now: datetime) -> None:
    """Make a new authority and a certificate by it. The old authority stays trusted until ``finish``, and its
    signature on the new one leads there whoever knows the old one only. Raises BadCertificates."""
    old, known, cross = _authority(folder), _read(folder / AUTHORITIES), _read(folder / CROSS)
    new = new_authority(now)
    cross = [signed_by(old, new, now), *(one for one in cross if one.not_valid_after_utc > now)]
    names = names or _served_names(folder)
    known = [new.certificate, *(one for one in known if one.not_valid_after_utc > now)]
    # In this order whatever is served at any moment is trusted, and a rotation that was interrupted can be repeated.
    write_private(folder / CROSS, "".join(map(public_pem, cross)))
    write_private(folder / AUTHORITIES, "".join(map(public_pem, known)))
    write_private(folder / OWN_KEY, private_pem(new.key))
    _serve(folder, new, names, cross, now)


def finish(folder: Path, now: datetime) -> None:
    """Trust only the newest authority. Raises BadCertificates."""
    authority = _authority(folder)
    _serve(folder, authority, _served_names(folder), [], now)
    write_private(folder / AUTHORITIES, public_pem(authority.certificate))
    (folder / CROSS).unlink(missing_ok=True)


def bring(folder: Path, chain: Path, key: Path, authorities: Path | None) -> None:
    """Serve with a certificate of somebody else's authority. Without ``authorities`` nodes trust those of their
    systems. Raises BadCertificates."""
    certificates = _read(chain)
    try:
        text = key.read_text()
        private = load_pem_private_key(text.encode(), None)
    except (OSError, ValueError, TypeError) as error:
        raise BadCertificates(f"{key} has no private key without a password: {error}") from error
    if not certificates or private.public_key() != certificates[0].public_key():
        raise BadCertificates(f"The key {key} is not that of the first certificate in {chain}.")
    if not names_of(certificates[0]):
        raise BadCertificates(f"The first certificate in {chain} names no host (subject alternative names).")
    trusted = _read(authorities) if authorities is not None else []
    make_private(folder)
    for own in (OWN_KEY, CROSS):
        (folder / own).unlink(missing_ok=True)
    write_private(folder / AUTHORITIES, "".join(map(public_pem, trusted)))
    write_private(folder / SERVER, text.rstrip() + "\n" + "".join(map(public_pem, certificates)))


def _serve(
    folder: Path, authority: Authority, names: Sequence[str], cross: Sequence[x509.Certificate], now: datetime
) -> None:
    issued = issue(authority, names, now)
    chain = [issued.certificate, *cross]
    write_private(folder / SERVER, private_pem(issued.key) + "".join(map(public_pem, chain)))


def _authority(folder: Path) -> Authority:
    """Return the newest authority that the key belongs to: a rotation may have been interrupted between two files."""
    try:
        key = (folder / OWN_KEY).read_text()
    except OSError as error:
        if (folder / SERVER).exists():
            words = "were brought by `trainyard tls use`: bring the next ones the same way."
            raise BadCertificates(f"The certificates in {folder} {words}") from error
        raise BadCertificates(f"{folder} has no certificates yet: `trainyard tls init` makes them.") from error
    for certificate in _read(folder / AUTHORITIES):
        try:
            return read_authority(key, certificate)
        except ValueError:
            continue
    raise BadCertificates(f"No certificate in {folder / AUTHORITIES} belongs to {folder / OWN_KEY}.")


def _served_names(folder: Path) -> list[str]:
    return list(names_of(_read(folder / SERVER)[0]))


def _read(path: Path) -> list[x509.Certificate]:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        if path.name == CROSS:
            return []
        raise BadCertificates(f"{path} is not there.") from None
    except OSError as error:
        raise BadCertificates(f"{path} cannot be read: {error.strerror}.") from error
    try:
        return x509.load_pem_x509_certificates(text) if b"BEGIN CERTIFICATE" in text else []
    except ValueError as error:
        raise BadCertificates(f"{path} holds a certificate that cannot be read: {error}") from error
