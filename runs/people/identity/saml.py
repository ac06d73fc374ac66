"""SAML 2.0: the request that leads to an identity provider, and what its signed answer says about a person.

python3-saml checks the XML: the schema, the signature and that nothing but what is signed is read, issuer, times and
address. What it lets pass is checked here: the audience must be named, and the request that is answered must be named
inside of what is signed. The library is an extra; it is imported where a provider of the settings speaks SAML.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from runs.people.identity.providers import Claims, Provider, claims_of

POST_BINDING = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST"
SPACES = {"saml": "urn:oasis:names:tc:SAML:2.0:assertion"}
MAX_ANSWER = 96 * 1024  # characters of base64
MAX_AGE_S = 3600.0  # for so long at most an assertion is remembered as used

# Providers' names of each attribute, the best first: plain, as OIDs (eduPerson, LDAP), as claims of Microsoft's.
_CLAIMS = "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/"
NAMES: dict[str, tuple[str, ...]] = {
    "email": ("email", "mail", "urn:oid:0.9.2342.19200300.100.1.3", f"{_CLAIMS}emailaddress"),
    "preferred_username": ("username", "uid", "urn:oid:0.9.2342.19200300.100.1.1", f"{_CLAIMS}name"),
    "given_name": ("firstName", "givenName", "urn:oid:2.5.4.42", f"{_CLAIMS}givenname"),
    "family_name": ("lastName", "sn", "surname", "urn:oid:2.5.4.4", f"{_CLAIMS}surname"),
    "email_verified": ("email_verified",),
}
SENTENCES = (  # by what stands in the library's own words
    ("No Signature found", "it is not signed"),
    ("is not signed", "its assertion is not signed"),
    ("Signature validation failed", "its signature does not fit it"),
    ("1 assertion", "it has more than one assertion, or none"),
    ("Duplicated", "its signature does not fit it"),
    ("Found an unexpected Signature", "its signature does not fit it"),
    ("expired", "it is too old"),
    ("not yet valid", "it is not valid yet"),
    ("valid audience", "it is for another site"),
    ("Invalid issuer", "it comes from another provider"),
    ("instead of", "it is for another address"),
    ("SubjectConfirmation", "it is not confirmed for this address and time"),
    ("status code", "the provider did not let you in"),
)


class BadAssertion(ValueError):
    """The answer of a provider is not taken. The message is a sentence without anything of the answer in it."""

    def __init__(self, why: str) -> None:
        super().__init__(f"The answer of the provider is not accepted: {why}.")


class Assertion(NamedTuple):
    """Content of a genuine answer."""

    claims: Claims
    in_response_to: str  # the id of our request
    used_key: str  # names the assertion, which is taken once
    valid_for_s: float
    session_ends_at: float  # Unix time; 0: the provider did not say


def ask(provider: Provider, *, back: str, metadata: str) -> tuple[str, str]:
    """Return the id of the request, and the address to lead the browser to. ``back``: where the answer is to come."""
    from onelogin.saml2.auth import OneLogin_Saml2_Auth

    auth = OneLogin_Saml2_Auth(_request(back, ""), _settings(provider, back, metadata))
    url = str(auth.login(return_to=""))
    return str(auth.get_last_request_id()), url


def metadata_of(provider: Provider, *, back: str, metadata: str) -> bytes:
    """Return what the provider is to know of this site, as XML."""
    from onelogin.saml2.settings import OneLogin_Saml2_Settings

    made = OneLogin_Saml2_Settings(_settings(provider, back, metadata), sp_validation_only=True).get_sp_metadata()
    return made if isinstance(made, bytes) else str(made).encode()


def read_answer(provider: Provider, text: str, *, back: str, metadata: str, now: datetime) -> Assertion:
    """Return what the answer, in base64, says. Raises BadAssertion."""
    from onelogin.saml2.response import OneLogin_Saml2_Response
    from onelogin.saml2.settings import OneLogin_Saml2_Settings

    if not text or len(text) > MAX_ANSWER:
        raise BadAssertion("there is none, or it is too long")
    settings = OneLogin_Saml2_Settings(_settings(provider, back, metadata))
    try:
        answer = OneLogin_Saml2_Response(settings, text)
    except Exception as error:  # whatever a parser says of what a stranger sent
        raise BadAssertion("it cannot be read") from error
    try:
        answer.is_valid(_request(back, text), raise_exceptions=True)
        return _checked(provider, answer, metadata_id(provider, metadata), now)
    except BadAssertion:
        raise
    except Exception as error:  # the library raises its own, lxml's, xmlsec's and ValueError
        known = (sentence for part, sentence in SENTENCES if part in str(error))
        raise BadAssertion(next(known, "it does not follow the rules of SAML")) from error


def metadata_id(provider: Provider, metadata: str) -> str:
    """Return how this site is called at the provider."""
    return provider.client_id or metadata


def _checked(provider: Provider, answer: Any, own_id: str, now: datetime) -> Assertion:
    found = answer.document.xpath("//saml:Assertion", namespaces=SPACES)
    if answer.encrypted or len(found) != 1:
        raise BadAssertion("it has more than one assertion, or an encrypted one")
    if own_id not in answer.get_audiences():
        raise BadAssertion("it does not say that it is for this site")
    asked = str(answer.get_in_response_to() or "")
    inside = [one.get("InResponseTo") for one in found[0].xpath(".//saml:SubjectConfirmationData", namespaces=SPACES)]
    if not asked or inside != [asked]:
        raise BadAssertion("it answers no request of this site")
    identity = str(answer.get_assertion_id() or "")
    until = answer.get_assertion_not_on_or_after()
    if not identity or not until:
        raise BadAssertion("it has no name, or no end")
    name, attributes = str(answer.get_nameid() or ""), answer.get_attributes()
    return Assertion(
        claims=_claims(provider, name, str(answer.get_nameid_format() or ""), attributes),
        in_response_to=asked,
        used_key=hashlib.sha256(f"{provider.id} {identity}".encode()).hexdigest(),
        valid_for_s=min(max(float(until) - now.timestamp(), 1.0) + 300.0, MAX_AGE_S),
        session_ends_at=float(answer.get_session_not_on_or_after() or 0.0),
    )


def _claims(provider: Provider, name: str, kind: str, attributes: Mapping[str, Sequence[object]]) -> Claims:
    if kind.endswith(":transient"):
        raise BadAssertion("its name of you changes at each sign-in: have the provider send a persistent one")
    document: dict[str, object] = {"sub": name}
    for claim, names in NAMES.items():
        if values := next((attributes[one] for one in names if attributes.get(one)), ()):
            document[claim] = values[0]
    if "email" not in document and kind.endswith(":emailAddress"):
        document["email"] = name
    document[provider.groups_claim] = list(attributes.get(provider.groups_claim, ()))
    try:
        return claims_of(provider, document)
    except ValueError as error:
        raise BadAssertion("it names nobody") from error


def _request(back: str, answer: str) -> dict[str, object]:
    """Return the request as the library wants it: by our public address, whatever a proxy in between calls it."""
    parts = urlsplit(back)
    return {
        "https": "on" if parts.scheme == "https" else "off",
        "http_host": parts.netloc,
        "script_name": parts.path,
        "get_data": {},
        "post_data": {"SAMLResponse": answer} if answer else {},
    }


def _settings(provider: Provider, back: str, metadata: str) -> dict[str, object]:
    return {
        "strict": True,
        "sp": {
            "entityId": metadata_id(provider, metadata),
            "assertionConsumerService": {"url": back, "binding": POST_BINDING},
            "NameIDFormat": "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent",
        },
        "idp": {
            "entityId": provider.issuer,
            "singleSignOnService": {"url": provider.sign_on_url},
            "x509certMulti": {"signing": certificates_of(provider)},
        },
        "security": {
            "wantAssertionsSigned": True,
            "wantNameId": True,
            "wantAttributeStatement": False,
            "allowRepeatAttributeName": True,
            "rejectDeprecatedAlgorithm": True,
            "requestedAuthnContext": False,
            "allowSingleLabelDomains": True,
        },
    }


def certificates_of(provider: Provider) -> list[str]:
    """Return the provider's certificates: two while it changes them. Raises OSError."""
    text = Path(provider.certificate_file).read_text()
    found = re.findall(r"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", text, re.DOTALL)
    return ["".join(one.split()) for one in found]
