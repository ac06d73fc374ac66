"""Git keys of a project: tokens and SSH keys, locked at rest, given to Git by its environment and by files alone."""

import base64
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from django.core.exceptions import ValidationError
from django.utils import timezone

from runs.inputs.repositories.problems import RepositoryProblem
from runs.models import GitKey, Project
from runs.rights.secrets.key_stores import KeyProblem
from runs.rights.secrets.sealed import git_key_place, open_text
from trainyard.spec.values.code import RepositoryAddress, place_of

CONNECT_S = 15


class Passage(NamedTuple):
    """Git's access to a repository: variables and settings for its programs."""

    variables: dict[str, str]
    settings: dict[str, str]


def _open_secret(key: GitKey) -> str:
    """Raises RepositoryProblem."""
    try:
        return open_text(git_key_place(key.project_id, key.pk), key.locked)
    except KeyProblem as error:
        raise RepositoryProblem("git", f"the Git key for {key.place} does not open. {error}") from error


def key_for(project: Project, place: RepositoryAddress) -> GitKey | None:
    """Return the project's key for the repository: that of the longest place that it lies under."""
    kind = {"ssh": GitKey.Kind.SSH, "https": GitKey.Kind.TOKEN, "http": GitKey.Kind.TOKEN}.get(place.scheme)
    wanted = f"{_server_of(place)}/{place.path.strip('/')}".removesuffix(".git")
    own = GitKey.objects.filter(project=project, kind=kind)
    fitting = [one for one in own if wanted == one.place or wanted.startswith(f"{one.place}/")]
    return max(fitting, key=lambda one: len(one.place), default=None)


def _server_of(place: RepositoryAddress) -> str:
    """Return host and port as the places of keys have them. Another port may be another program, which must not get the
    token that is for the first; and over plain HTTP everybody on the way reads it. So both are named in the place. (SSH
    gives no key away.)"""
    if place.scheme == "http":
        return f"{place.host}:{place.port or 80}"
    is_named = place.scheme == "https" and place.port not in (None, 443)
    return f"{place.host}:{place.port}" if is_named else place.host


def authorization(key: GitKey) -> str:
    """Return the value of the header that opens the repository by HTTP. Raises RepositoryProblem."""
    return "Basic " + base64.b64encode(f"{key.user or 'git'}:{_open_secret(key)}".encode()).decode()


@contextmanager
def passage(url: str, address: str, key: GitKey | None) -> Iterator[Passage]:
    """Give Git the way to the URL, by the address that was looked at. What it needs in files is gone afterwards."""
    place = place_of(url)
    variables, found = {"GIT_ALLOW_PROTOCOL": place.scheme}, {}
    with tempfile.TemporaryDirectory(prefix="trainyard-git-") as name:
        folder = Path(name)
        if place.scheme == "file":
            trusted = folder / "config"  # Git's program at the other end of a path reads none of our settings
            trusted.write_text("[safe]\n\tdirectory = *\n")
            variables["GIT_CONFIG_GLOBAL"] = str(trusted)
        elif place.scheme == "ssh":
            if key is None:
                words = f"{place.host} is reached by ssh, for which the project has no Git key: add a deploy key"
                raise RepositoryProblem("git", words)
            variables |= {"GIT_SSH_COMMAND": _ssh_command(folder, place, address, key), "GIT_SSH_VARIANT": "ssh"}
        else:
            port = place.port or (443 if place.scheme == "https" else 80)
            shown = f"[{address}]" if ":" in address else address
            found["http.curloptResolve"] = f"{place.host}:{port}:{shown}"
            if key is not None:
                found["http.extraHeader"] = f"Authorization: {authorization(key)}"
        yield Passage(variables, found)
        if key is not None:
            _record_use(key, folder / "known_hosts")


def _ssh_command(folder: Path, place: RepositoryAddress, address: str, key: GitKey) -> str:
    """Git has a shell read this. All in it is ours, and the words of others (host, address) were looked at; they are
    quoted all the same."""
    identity, known = folder / "identity", folder / "known_hosts"
    with os.fdopen(os.open(identity, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(_open_secret(key).strip() + "\n")
    known.write_text(key.host_keys)
    options = {
        "IdentityFile": str(identity),
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "UserKnownHostsFile": str(known),
        "GlobalKnownHostsFile": os.devnull,
        "StrictHostKeyChecking": "yes" if key.host_keys else "accept-new",
        "HashKnownHosts": "no",
        "UpdateHostKeys": "no",
        "HostKeyAlias": place.host,
        "HostName": address,
        "BatchMode": "yes",
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "ForwardAgent": "no",
        "PermitLocalCommand": "no",
        "ConnectTimeout": str(CONNECT_S),
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    return shlex.join(["ssh", "-F", os.devnull, *words])


def _record_use(key: GitKey, known: Path) -> None:
    """Keep the host's key as it was seen first: another one later is refused."""
    GitKey.objects.filter(pk=key.pk).update(used_at=timezone.now())
    if key.kind == GitKey.Kind.SSH and not key.host_keys and known.exists():
        GitKey.objects.filter(pk=key.pk, host_keys="").update(host_keys=known.read_text()[:10_000])


class KeyValues(NamedTuple):
    place: str
    secret: str
    user: str
    host_keys: str


_PLACE = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*[A-Za-z0-9_~-])?")
_USER = re.compile(r"[A-Za-z0-9._@+-]{0,100}")
_HOST_KEY = re.compile(r"#.*|\S+ (ssh|ecdsa|sk)-[a-z0-9@.-]+ [A-Za-z0-9+/=]+( .*)?")


def checked_key(*, kind: GitKey.Kind, place: str, secret: str, user: str, host_keys: str) -> KeyValues:
    """Return what is to be kept. Raises ValidationError, which never has the secret in it."""
    problems: dict[str, str] = {}
    scheme, _, place = place.strip().rpartition("://")
    place = place.rpartition("@")[2]
    if re.fullmatch(r"[A-Za-z0-9.-]+:(?!\d+(/|$)).*", place):
        place = place.replace(":", "/", 1)
    host, _, path = place.partition("/")
    name, _, port = host.partition(":")
    port = port or ("80" if scheme == "http" else "")
    is_port_kept = kind == GitKey.Kind.TOKEN and port not in ("", "443")
    host = f"{name.lower()}:{port}" if is_port_kept else name.lower()
    place = f"{host}/{path.strip('/').removesuffix('.git')}".rstrip("/")
    if not _PLACE.fullmatch(place) or ".." in place or len(place) > 500:
        problems["place"] = "Write a host such as github.com, or a host and a path such as github.com/team."
    secret = secret.replace("\r\n", "\n").strip()
    if kind == GitKey.Kind.TOKEN and (not secret or len(secret) > 2_000 or not secret.isprintable() or " " in secret):
        problems["secret"] = "Paste a token: one line without spaces."
    if kind == GitKey.Kind.SSH:
        if not (secret.startswith("-----BEGIN ") and secret.endswith("PRIVATE KEY-----")) or len(secret) > 20_000:
            problems["secret"] = "Paste a whole private key, from its line BEGIN … PRIVATE KEY to the line END."
        elif "ENCRYPTED" in secret:
            problems["secret"] = "This key has a passphrase, which nobody can type here: make one without."
    if not _USER.fullmatch(user):
        problems["user"] = "A user is letters, digits and . _ @ + -"
    host_keys = host_keys.replace("\r\n", "\n").strip()
    if host_keys and not all(map(_HOST_KEY.fullmatch, host_keys.split("\n"))):
        problems["host_keys"] = "Paste lines as ssh-keyscan prints them: host, kind, key."
    if problems:
        raise ValidationError(problems)
    return KeyValues(place, secret, user, f"{host_keys}\n" if host_keys else "")
