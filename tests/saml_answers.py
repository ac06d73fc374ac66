"""Answers of a SAML provider for tests: real XML, really signed, and changed afterwards as an attacker would."""

from __future__ import annotations

import base64
import datetime as dates
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from onelogin.saml2.constants import OneLogin_Saml2_Constants as Saml
from onelogin.saml2.utils import OneLogin_Saml2_Utils

from runs.people.identity.providers import Provider

ISSUER = "https://id.example.com/saml"
BEARER = "urn:oasis:names:tc:SAML:2.0:cm:bearer"
PERSISTENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"


class Pair(NamedTuple):
    key: str
    certificate: str


@cache
def pair(name: str) -> Pair:
    """A key and its certificate, as PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dates.datetime.now(dates.UTC)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    made = made.serial_number(7).not_valid_before(now).not_valid_after(now + dates.timedelta(days=1))
    certificate = made.sign(key, SHA256()).public_bytes(Encoding.PEM).decode()
    return Pair(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(), certificate)


def saml_provider(folder: Path, **changes: Any) -> Provider:
    certificate = folder / "provider.pem"
    certificate.write_text(pair("provider").certificate)
    values = {
        "id": "corp", "name": "Example Corp", "issuer": ISSUER, "protocol": "saml", "create_people": True,
        "sign_on_url": "https://id.example.com/saml/sign-on", "certificate_file": str(certificate), **changes,
    }  # fmt: skip
    return Provider(**values)


def time_in(seconds: float) -> str:
    return (dates.datetime.now(dates.UTC) + dates.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def assertion(
    *, back: str, audience: str, request: str, name: str = "ann-7", id: str = "_a1", issuer: str = ISSUER,
    ends_in: float = 300.0, kind: str = PERSISTENT, **attributes: list[str],
) -> str:  # fmt: skip
    """An assertion without a signature."""
    answers = f' InResponseTo="{request}"' if request else ""
    stated = "".join(
        f'<saml:Attribute Name="{key}">'
        + "".join(f"<saml:AttributeValue>{value}</saml:AttributeValue>" for value in values)
        + "</saml:Attribute>"
        for key, values in (attributes or {"email": ["ann@example.com"], "groups": ["ml"]}).items()
    )
    restricted = f"<saml:AudienceRestriction><saml:Audience>{audience}</saml:Audience></saml:AudienceRestriction>"
    return (
        f'<saml:Assertion xmlns:saml="{Saml.NS_SAML}" ID="{id}" Version="2.0" IssueInstant="{time_in(0)}">'
        f"<saml:Issuer>{issuer}</saml:Issuer><saml:Subject>"
        f'<saml:NameID Format="{kind}">{name}</saml:NameID><saml:SubjectConfirmation Method="{BEARER}">'
        f'<saml:SubjectConfirmationData NotOnOrAfter="{time_in(ends_in)}" Recipient="{back}"{answers}/>'
        f"</saml:SubjectConfirmation></saml:Subject>"
        f'<saml:Conditions NotBefore="{time_in(-600)}" NotOnOrAfter="{time_in(ends_in)}">'
        f"{restricted if audience else ''}</saml:Conditions>"
        f'<saml:AuthnStatement AuthnInstant="{time_in(0)}" SessionIndex="_s1"><saml:AuthnContext>'
        "<saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef>"
        f"</saml:AuthnContext></saml:AuthnStatement><saml:AttributeStatement>{stated}</saml:AttributeStatement>"
        "</saml:Assertion>"
    )


def signed(document: str, by: str = "provider") -> str:
    found = OneLogin_Saml2_Utils.add_sign(
        document, *pair(by), sign_algorithm=Saml.RSA_SHA256, digest_algorithm=Saml.SHA256
    )
    return found.decode() if isinstance(found, bytes) else str(found)


def response(*inside: str, back: str, request: str, issuer: str = ISSUER) -> str:
    answers = f' InResponseTo="{request}"' if request else ""
    return (
        f'<samlp:Response xmlns:samlp="{Saml.NS_SAMLP}" ID="_r1" Version="2.0" IssueInstant="{time_in(0)}"'
        f' Destination="{back}"{answers}><saml:Issuer xmlns:saml="{Saml.NS_SAML}">{issuer}</saml:Issuer>'
        f'<samlp:Status><samlp:StatusCode Value="{Saml.STATUS_SUCCESS}"/></samlp:Status>{"".join(inside)}'
        "</samlp:Response>"
    )


def sent(document: str) -> str:
    return base64.b64encode(document.encode()).decode()
