"""The key with which a cluster's machines let the server in: a file below the server's home, or an uploaded secret."""

import stat
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from django.conf import settings

from runs.engines.cluster_settings.settings import SECRET, Guarded, Places, field, secret_of
from runs.engines.openssh.target import Target
from runs.engines.refusals import SystemAway
from runs.models import Cluster
from trainyard.spooling.plain_files import write_private

SECRET_NAME = "ssh_key"
BEGIN, END = "-----BEGIN ", "PRIVATE KEY-----"


def key_problem(text: str) -> str:
    """Return what is wrong with an uploaded key, without showing it."""
    lines = text.strip().splitlines()
    is_key = len(lines) > 2 and lines[0].startswith(BEGIN) and lines[0].endswith(END) and lines[-1].endswith(END)
    return "" if is_key else "a private key as ssh-keygen writes it, from its BEGIN to its END line"


def key_file_problem(value: str) -> str:
    path = PurePosixPath(value)
    is_below = value.isprintable() and len(value) <= 200 and not path.is_absolute() and ".." not in path.parts
    return "" if is_below else f"a path below the server's home, such as keys/hpc, not {value[:100]!r}"


def key_field(heading: str = "") -> Any:
    return field(
        "Private key",
        "Without a passphrase, as ssh-keygen writes it. It is kept locked and never shown.",
        key_problem,
        kind=SECRET,
        heading=heading,
        placeholder="-----BEGIN OPENSSH PRIVATE KEY-----",
    )


def key_file_field() -> Any:
    return field(
        "Or its file",
        "A path below the server's home, such as keys/hpc, which the server's user alone may read.",
        key_file_problem,
    )


def of_key(key_file: str, field: str, targets: Sequence[Target]) -> Guarded:
    """Return what is guarded of a cluster whose machines are reached with the key. ``field``: the setting with them.
    A file is the server's own, and so are the machines that it opens."""
    places = Places(f"{target.user}@{target.host}:{target.port} {target.host_key}" for target in targets)
    on_server = {"ssh_key_file": key_file, **({field: places} if key_file else {})}
    return Guarded(on_server, {SECRET_NAME: places})


def ssh_folder() -> Path:
    """Return the folder of the files that `ssh` reads, which nobody else reads."""
    folder = Path(settings.HOME) / "ssh"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def identity_of(cluster: Cluster, key_file: str) -> Path:
    """Return the file with the private key. Raises SystemAway."""
    if key_file:
        return _file_below_home(key_file)
    text = secret_of(cluster, SECRET_NAME)
    if not text:
        raise SystemAway(f"Cluster {cluster.name} has no private key yet: enter one where the cluster is edited.")
    path = ssh_folder() / f"{cluster.pk}.key"
    whole = "\n".join(text.strip().splitlines()) + "\n"
    if not path.exists() or path.read_text() != whole:
        write_private(path, whole)
    return path


def _file_below_home(key_file: str) -> Path:
    home = Path(settings.HOME).resolve()
    path = (home / key_file).resolve()
    if not path.is_relative_to(home):
        raise SystemAway(f"The key file {key_file} is not below the server's home.")
    try:
        facts = path.stat()
    except OSError as error:
        raise SystemAway(f"The key file {key_file} cannot be read: {error.strerror or error}.") from error
    if not stat.S_ISREG(facts.st_mode) or facts.st_mode & 0o077:
        raise SystemAway(f"The key file {key_file} may be read by others: `chmod 600` it.")
    return path
