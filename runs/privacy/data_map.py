"""Places of people's data: one line for each model and each way in which its rows refer to a person.

The export, the erasure, docs/data_map.md and a test are made from these lines. The test compares them with the models:
a field that refers to a person, or is named as if it did, and has no line makes it red.
"""

from enum import StrEnum
from typing import NamedTuple


class OnErasure(StrEnum):
    DELETED = "deleted"
    CLEARED = "the row stays and names nobody"
    KEPT = "kept, shown under a pseudonym"


D, C, K = OnErasure.DELETED, OnErasure.CLEARED, OnErasure.KEPT


class Holding(NamedTuple):
    """Rows of a model that are about a person."""

    model: str  # its label
    lookup: str  # from the row to the person's primary key, as in a filter
    holds: str  # in words
    on_erasure: OnErasure
    hidden: tuple[str, ...] = ()  # fields that an export leaves out: secrets, and what is derived
    texts: tuple[str, ...] = ()  # further fields of it that may hold somebody's name or address

    @property
    def field(self) -> str:
        return self.lookup.partition("__")[0]


HOLDINGS = (
    Holding("runs.User", "pk", "user name, name, address of e-mail, times of joining and last sign-in, quiet hours", D,
            ("password",), ("username", "first_name", "last_name", "email", "is_superuser", "is_staff")),
    Holding("runs.User_groups", "user", "groups that they are in", D),
    Holding("runs.User_user_permissions", "user", "permissions of their own", D),
    Holding("runs.Membership", "user", "roles in projects", D),
    Holding("runs.Workspace", "user", "how they look at charts", D),
    Holding("runs.SavedView", "owner", "saved views of tables", D),
    Holding("runs.NoticeRule", "owner", "what they are notified of, and where, such as a browser", D, ("locked",),
            ("shown",)),
    Holding("runs.Following", "user", "runs that they follow or mute", D),
    Holding("runs.Token", "user", "API tokens: names, scopes, last use and its address", D, ("digest",),
            ("last_address",)),
    Holding("runs.SignInLink", "user", "one-time sign-in links: when they were made and used", D, ("digest",)),
    Holding("runs.IdempotencyKey", "user", "answers that are kept for requests that are sent again", D,
            ("answer", "body_digest")),
    Holding("runs.BrowserSession", "user", "browsers that are or were signed in: address, program, times", D,
            ("session_key",), ("address", "agent")),
    Holding("runs.ProviderSession", "session__user", "what an identity provider gave for a session", D, ("locked",),
            ("subject",)),
    Holding("runs.Identity", "user", "accounts at identity providers", D, (), ("subject", "external_id", "username")),
    Holding("account.EmailAddress", "user", "addresses of e-mail", D, (), ("email",)),
    Holding("account.EmailConfirmation", "email_address__user", "confirmations of an address", D, ("key",),
            ("email_address",)),
    Holding("socialaccount.SocialAccount", "user", "accounts at providers, of the library that signs in", D, (),
            ("uid", "extra_data")),
    Holding("socialaccount.SocialToken", "account__user", "tokens of providers", D, ("token", "token_secret")),
    Holding("mfa.Authenticator", "user", "second factors: kinds and times", D, ("data",)),
    Holding("admin.LogEntry", "user", "what they did in the administration", D),
    Holding("runs.Secret", "person", "names of secrets of their own; no value", D),
    Holding("runs.Secret", "created_by", "secrets of projects that they set", C),
    Holding("runs.SecretVersion", "secret__person", "versions of secrets of their own", D,
            ("wrapped_key", "ciphertext", "key_id")),
    Holding("runs.SecretVersion", "created_by", "versions of secrets that they set", C,
            ("wrapped_key", "ciphertext", "key_id")),
    Holding("runs.PersonalExport", "user", "exports like this one", D),
    Holding("runs.Consent", "user", "texts that they agreed to", D),
    Holding("runs.Invitation", "created_by", "invitations that they made", C, ("digest",)),
    Holding("runs.SharedLink", "created_by", "links for guests that they made", C, ("digest",)),
    Holding("runs.Invitation", "accepted_by", "the invitation by which they came, with its address", C, ("digest",),
            ("email",)),
    Holding("runs.ProvisioningToken", "created_by", "SCIM tokens that they made", C, ("digest",), ("last_address",)),
    Holding("runs.JoinToken", "created_by", "join tokens of nodes that they made", C, ("digest",)),
    Holding("runs.GitKey", "created_by", "Git keys that they added", C, ("locked", "host_keys"), ("user",)),
    Holding("runs.Job", "created_by", "jobs that they saved", C),
    Holding("runs.CodeBundle", "created_by", "code that they sent: digests and paths", C),
    Holding("runs.Dataset", "created_by", "datasets that they named", C),
    Holding("runs.SavedView", "created_by", "saved views of projects that they saved", C),
    Holding("runs.Report", "created_by", "reports that they began", C),
    Holding("runs.ReportVersion", "author", "versions of reports that they saved", C, ("pinned",)),
    Holding("runs.ReportComment", "author", "comments on reports that they wrote", C),
    Holding("runs.Sweep", "created_by", "sweeps that they started", C),
    Holding("runs.Run", "created_by", "runs that they launched: spec, configuration, name, tags, notes, outcome", C,
            ("estimate", "found_by", "is_long")),
    Holding("runs.RunCode", "run__created_by", "commits of those runs, with the author's name", C, (),
            ("author", "authored_at", "subject")),
    Holding("runs.Event", "actor", "lines in the history of runs that name them", C),
    Holding("runs.Preflight", "asked_by", "checks of machines that they asked for", C),
    Holding("runs.AuditEntry", "actor_number", "what they did, from which address, by which token", K,
            ("previous_hash",), ("actor", "address")),
)  # fmt: skip
