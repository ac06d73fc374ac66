"""Identity providers, as the settings file names them. No secret is in here: it is read where it is used.

Read while Django's settings are: nothing of Django is imported.
"""

import importlib.util
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from trainyard.contract.base import BadDocument, WireStruct, convert

NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
TAKEN = ("password", "link", "invitation")  # ways in that a session may have besides providers
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class GroupRoleSetting(WireStruct, forbid_unknown_fields=True):
    """People in this group of the provider have this role in the project."""

    group: str
    project: str
    role: str


class Provider(WireStruct, forbid_unknown_fields=True):
    """One provider, by OpenID Connect or SAML: Keycloak, Entra ID, Okta, Google and so on."""

    id: str
    name: str
    issuer: str  # an address (OpenID Connect), the entity id (SAML)
    client_id: str = ""  # SAML: the entity id of this site; empty: the address of its metadata
    protocol: Literal["openid-connect", "saml"] = "openid-connect"
    sign_on_url: str = ""  # SAML: where people sign in
    certificate_file: str = ""  # SAML: by which the provider signs, as PEM; two while it changes them
    client_secret_file: str = ""
    client_secret_variable: str = ""
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    create_people: bool = False  # whoever it lets in and nobody here knows becomes a person
    link_by_email: bool = False  # trusted to say that a verified address is an existing person's
    emails_are_verified: bool = False  # for providers that send no `email_verified`
    email_domains: tuple[str, ...] = ()  # empty: any
    groups_claim: str = "groups"
    roles: tuple[GroupRoleSetting, ...] = ()
    second_factor: bool = False  # it asks for one itself, so that this site does not
    check_every_s: Annotated[int, msgspec.Meta(ge=5, le=50)] = 30
    unconfirmed_hours: Annotated[int, msgspec.Meta(ge=1, le=24 * 14)] = 12  # a session lives while it is out of reach

    def secret(self) -> str:
        """Return the client's secret, "" for a public client. Raises OSError where its file cannot be read."""
        if self.client_secret_variable:
            return os.environ.get(self.client_secret_variable, "")
        return Path(self.client_secret_file).read_text().strip() if self.client_secret_file else ""


class SignInSettings(WireStruct, forbid_unknown_fields=True):
    """The whole file."""

    providers: tuple[Provider, ...] = ()
    second_factor: Literal["", "staff", "everybody"] = ""  # who needs one, besides what projects ask for

    def provider(self, provider_id: str) -> Provider | None:
        return next((one for one in self.providers if one.id == provider_id), None)


def read_settings(path: Path, *, must_exist: bool) -> SignInSettings:
    """Return what the file says; nothing where there is none. Raises ValueError, which names the file and the field."""
    if not must_exist and not path.exists():
        return SignInSettings()
    try:
        found = convert(tomllib.loads(path.read_text()), SignInSettings, is_secret=True)
        for provider in found.providers:
            _check(provider)
        names = [provider.id for provider in found.providers]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise BadDocument(f"providers: two have the id {sorted(repeated)[0]!r}")
    except (OSError, ValueError) as error:
        raise ValueError(f"The settings of sign-in in {path} are not accepted: {error}.") from error
    return found


def _check(provider: Provider) -> None:
    if not NAME.fullmatch(provider.id) or provider.id in TAKEN:
        raise BadDocument(f"providers: id has small letters, digits and -, not {provider.id!r}")
    if provider.protocol == "saml":
        _check_saml(provider)
        return
    if provider.sign_on_url or provider.certificate_file:
        raise BadDocument(f"providers: sign_on_url and certificate_file of {provider.id} are for SAML")
    place = urlsplit(provider.issuer)
    if not _is_safe(provider.issuer) or place.query:
        raise BadDocument(f"providers: issuer of {provider.id} is an https address, not {provider.issuer!r}")
    if provider.client_secret_file and provider.client_secret_variable:
        raise BadDocument(f"providers: {provider.id} has its secret in a file or in a variable, not in both")
    if not provider.client_id or not provider.name.strip():
        raise BadDocument(f"providers: {provider.id} needs a name and a client_id")
    if "openid" not in provider.scopes:
        raise BadDocument(f"providers: scopes of {provider.id} need openid")


def _check_saml(provider: Provider) -> None:
    if importlib.util.find_spec("onelogin") is None:
        raise BadDocument(f"providers: {provider.id} speaks SAML, which needs: pip install 'trainyard[saml]'")
    if not provider.issuer or not provider.name.strip():
        raise BadDocument(f"providers: {provider.id} needs a name and an issuer, which is the provider's entity id")
    if not _is_safe(provider.sign_on_url):
        raise BadDocument(f"providers: sign_on_url of {provider.id} is an https address, not {provider.sign_on_url!r}")
    if provider.client_secret_file or provider.client_secret_variable:
        raise BadDocument(f"providers: {provider.id} speaks SAML, where a client has no secret")
    if "BEGIN CERTIFICATE" not in Path(provider.certificate_file or "/dev/null").read_text():
        raise BadDocument(f"providers: certificate_file of {provider.id} names no certificate in PEM")


def _is_safe(address: str) -> bool:
    """Return whether it is an https address, or one of this machine."""
    place = urlsplit(address)
    is_encrypted = place.scheme == "https" or (place.scheme == "http" and place.hostname in LOOPBACK)
    return bool(is_encrypted and place.hostname and not place.username and not place.fragment)


MAX_GROUPS = 500
NOT_IN_NAMES = re.compile(r"[^\w.@+-]+")
MAX_NAME = 100  # characters of a user name; a number may be added


@dataclass(frozen=True)
class Claims:
    """Claims about the person at one sign-in. Everything but the subject may be empty."""

    subject: str
    email: str = ""
    is_email_verified: bool = False
    username: str = ""
    first_name: str = ""
    last_name: str = ""
    groups: frozenset[str] = frozenset()
    sid: str = ""

    @property
    def domain(self) -> str:
        return self.email.rpartition("@")[2].lower()


def claims_of(provider: Provider, *documents: Mapping[str, object]) -> Claims:
    """Return the claims in what the provider sent: the user info and the ID token. What stands in an earlier document
    wins. Raises ValueError where they name no subject, or different ones."""
    subjects = {str(one["sub"]) for one in documents if one.get("sub")}
    if len(subjects) != 1:
        raise ValueError("The provider named no subject, or two different ones.")
    found: dict[str, object] = {}
    for document in documents:
        found = {**document, **found}
    # Who names an address says if it is verified.
    of_email = next((one for one in documents if one.get("email")), found)
    email = _text(of_email.get("email"), 254)
    says_verified = of_email.get("email_verified") in (True, "true")
    return Claims(
        subject=subjects.pop(),
        email=email if email.count("@") == 1 else "",
        is_email_verified=bool(email) and (says_verified or provider.emails_are_verified),
        username=_text(found.get("preferred_username"), 150),
        first_name=_text(found.get("given_name"), 150),
        last_name=_text(found.get("family_name"), 150),
        groups=frozenset(_groups(found, provider.groups_claim)),
        sid=_text(found.get("sid"), 255),
    )


def why_not_admitted(provider: Provider, claims: Claims) -> str:
    """Return why the provider's settings keep the person out, "" where they do not."""
    if not provider.email_domains:
        return ""
    if not claims.is_email_verified:
        return f"{provider.name} names no verified e-mail address of yours, and only some addresses may sign in here."
    if claims.domain not in {domain.lower() for domain in provider.email_domains}:
        return f"Addresses at {claims.domain} may not sign in here."
    return ""


def usernames(claims: Claims) -> Iterator[str]:
    """Yield user names for a new person, the best first, without end."""
    wanted = claims.username or claims.email.partition("@")[0] or f"person-{claims.subject}"
    base = NOT_IN_NAMES.sub("-", wanted).strip("-")[:MAX_NAME] or "person"
    yield base
    yield from (f"{base}-{number}" for number in count(2))


def _groups(found: Mapping[str, object], claim: str) -> list[str]:
    """Return the groups in a claim, which may lie deeper (``realm_access.roles``) and be a text with one."""
    value: object = found.get(claim)
    if value is None:
        value = found
        for step in claim.split("."):
            value = value.get(step) if isinstance(value, Mapping) else None
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, Sequence):
        return []
    names = [_text(one, 100).removeprefix("/") for one in value if isinstance(one, str)]  # Keycloak's paths begin so
    return [name for name in names if name][:MAX_GROUPS]


def _text(value: object, limit: int) -> str:
    return value.strip()[:limit] if isinstance(value, str) else ""
