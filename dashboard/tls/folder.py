"""The folder `tls` of a home: what the server serves with, and what others trust it by.

`server.pem` has the server's key and its chain in one file, so that one step replaces both. `ca.pem` has the
authorities that nodes trust, the newest first. `ca-key.pem` is there only where the authority is Trainyard's own, and
`cross.pem` where an older authority is still trusted: its signatures on its successors.
"""

import ipaddress
import secrets
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dashboard.home import make_private
from runs.serving.certificates import OWN_KEY, names_of
from trainyard.rest.trust import AUTHORITIES, SERVER
from trainyard.spooling.plain_files import write_private

AUTHORITY_LIFE = timedelta(days=3650)
SERVER_LIFE = timedelta(days=397)  # the longest that browsers take
EARLIER = timedelta(hours=1)  # clocks of nodes may be behind
CROSS = "cross.pem"
UNUSED = dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only",
                        "decipher_only"), False)  # fmt: skip


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
    folder: Path, authority: "Authority", names: Sequence[str], cross: Sequence[x509.Certificate], now: datetime
) -> None:
    key, certificate = issue(authority, names, now)
    write_private(folder / SERVER, private_pem(key) + "".join(map(public_pem, [certificate, *cross])))


def _authority(folder: Path) -> "Authority":
    """Return the newest authority that the key belongs to: a rotation may have been interrupted between two files."""
    try:
        key = (folder / OWN_KEY).read_text()
    except OSError as error:
        if (folder / SERVER).exists():
            words = "were brought by `trainyard tls use`: bring the next ones the same way."
            raise BadCertificates(f"The certificates in {folder} {words}") from error
        raise BadCertificates(f"{folder} has no certificates yet: `trainyard tls init` makes them.") from error
    private = None
    with suppress(ValueError):
        private = load_pem_private_key(key.encode(), None)
    for certificate in _read(folder / AUTHORITIES):
        if isinstance(private, ec.EllipticCurvePrivateKey) and private.public_key() == certificate.public_key():
            return Authority(private, certificate)
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


# A certificate authority of one Trainyard: it signs the server's certificate, and its own successor.
#
# After a rotation the server sends the new authority's certificate signed by the old one too, so that whoever knows
# only the old one still finds a chain. Nodes learn the new one over that connection.


class Authority(NamedTuple):
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def new_authority(now: datetime) -> Authority:
    """Return an authority whose name no other one has."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _common_name(f"Trainyard CA {secrets.token_hex(4)}")
    return Authority(key, _signed(name, key, name, key, now, now + AUTHORITY_LIFE))


def signed_by(old: Authority, new: Authority, now: datetime) -> x509.Certificate:
    """Return the new authority's certificate with the old one's signature; it ends with the old authority."""
    end = min(now + AUTHORITY_LIFE, old.certificate.not_valid_after_utc)
    return _signed(new.certificate.subject, new.key, old.certificate.subject, old.key, now, end)


def issue(
    authority: Authority, names: Sequence[str], now: datetime
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Return a server's key and certificate for these names and addresses. Raises ValueError without any."""
    if not names:
        raise ValueError("a certificate needs a name")
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now + SERVER_LIFE, authority.certificate.not_valid_after_utc)
    hosts = x509.SubjectAlternativeName([_general_name(name) for name in names])
    subject, issuer = _common_name(names[0]), authority.certificate.subject
    return key, _signed(subject, key, issuer, authority.key, now, end, hosts)


def private_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def public_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _signed(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    now: datetime,
    end: datetime,
    hosts: x509.SubjectAlternativeName | None = None,
) -> x509.Certificate:
    """Return the certificate of a server with these ``hosts``, without them that of an authority."""
    signs = hosts is None
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now.astimezone(UTC) - EARLIER).not_valid_after(end.astimezone(UTC))
    usage = x509.KeyUsage(digital_signature=True, key_cert_sign=signs, crl_sign=signs, **UNUSED)
    critical = (x509.BasicConstraints(ca=signs, path_length=None), usage)
    others: list[x509.ExtensionType] = [
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
    ]
    others += [hosts, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])] if hosts else []
    for extension in (*others, *critical):
        builder = builder.add_extension(extension, extension in critical)
    return builder.sign(issuer_key, SHA256())


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        return x509.DNSName(name.encode("idna").decode() if not name.isascii() else name)
