"""A certificate authority of one Trainyard: it signs the server's certificate, and its own successor.

After a rotation the server sends the new authority's certificate signed by the old one too, so that whoever knows only
the old one still finds a chain. Nodes learn the new one over that connection.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFE = timedelta(days=3650)
SERVER_LIFE = timedelta(days=397)  # the longest that browsers take
EARLIER = timedelta(hours=1)  # clocks of nodes may be behind


class Authority(NamedTuple):
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


class Issued(NamedTuple):
    """A key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def new_authority(now: datetime) -> Authority:
    """Return an authority whose name no other one has."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Trainyard CA {secrets.token_hex(4)}")])
    return Authority(key, _authority_certificate(name, key.public_key(), name, key, now, AUTHORITY_LIFE))


def signed_by(old: Authority, new: Authority, now: datetime) -> x509.Certificate:
    """Return the new authority's certificate with the old one's signature; it ends with the old authority."""
    life = min(AUTHORITY_LIFE, old.certificate.not_valid_after_utc - now)
    subject, issuer = new.certificate.subject, old.certificate.subject
    return _authority_certificate(subject, new.key.public_key(), issuer, old.key, now, life)


def issue(authority: Authority, names: Sequence[str], now: datetime) -> Issued:
    """Return a server's key and certificate for these names and addresses. Raises ValueError without any."""
    if not names:
        raise ValueError("a certificate needs a name")
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now + SERVER_LIFE, authority.certificate.not_valid_after_utc)
    builder = _builder(_common_name(names[0]), key.public_key(), authority.certificate.subject, now, end)
    builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
    builder = builder.add_extension(_usage(signs=False), True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
    builder = builder.add_extension(_authority_identifier(authority.key.public_key()), False)
    return Issued(key, builder.sign(authority.key, SHA256()))


def private_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def public_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def read_authority(key: str, certificate: x509.Certificate) -> Authority:
    """Raises ValueError for a key that is not the certificate's."""
    found = load_pem_private_key(key.encode(), None)
    if not isinstance(found, ec.EllipticCurvePrivateKey) or found.public_key() != certificate.public_key():
        raise ValueError("the authority's key is not that of its certificate")
    return Authority(found, certificate)


def _authority_certificate(
    subject: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    life: timedelta,
) -> x509.Certificate:
    builder = _builder(subject, public_key, issuer, now, now + life)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
    builder = builder.add_extension(_usage(signs=True), True)
    builder = builder.add_extension(_authority_identifier(key.public_key()), False)
    return builder.sign(key, SHA256())


def _builder(
    subject: x509.Name, public_key: ec.EllipticCurvePublicKey, issuer: x509.Name, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public_key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now.astimezone(UTC) - EARLIER).not_valid_after(end.astimezone(UTC))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), False)


def _authority_identifier(key: ec.EllipticCurvePublicKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        return x509.DNSName(name.encode("idna").decode() if not name.isascii() else name)
