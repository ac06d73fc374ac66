"""Claims of an identity provider about a person, as plain values, and the check that they let the person in."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from runs.people.identity.providers import Provider

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
