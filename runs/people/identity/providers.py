"""Identity providers, as the settings file names them. No secret is in here: it is read where it is used.

Read while Django's settings are: nothing of Django is imported.
"""

import importlib.util
import os
import re
import tomllib
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

    def roles_of(self, group: str) -> list[GroupRoleSetting]:
        return [one for one in self.roles if one.group == group]


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
