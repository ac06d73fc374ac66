"""The folder that holds all state, the folders of our own files, and where sockets go. Imports nothing of Django."""

import hashlib
import hmac
import os
import secrets
import stat
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

from trainyard.rest.trust import AUTHORITIES, SERVER
from trainyard.spooling.plain_files import write_first

# A socket's path ends at 108 characters on Linux and at 104 on macOS, the closing NUL among them.
LONGEST_SOCKET_PATH = 100
SHORT_TEMPORARY = "/tmp"  # where the folders of this user have long names


class UnsafeFolder(RuntimeError):
    """A folder for sockets that somebody else could read or replace."""


def read_secret_files(environment: MutableMapping[str, str]) -> None:
    """Set each secret that is not set and has its file in NAME_FILE. Raises ValueError for what is no such file."""
    for name in ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "TRAINYARD_SECRETS_KEY", "EMAIL_PASSWORD"):
        path = environment.get(f"{name}_FILE")
        try:
            if path and not environment.get(name):
                environment[name] = Path(path).read_text().strip()
        except (OSError, UnicodeError) as error:
            raise ValueError(f"{name}_FILE is {path}, which cannot be read: {error}.") from error


def mail_server(port: str, tls: str) -> tuple[int, str]:
    """Return port and encryption of the server that takes e-mail. Raises ValueError."""
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65_536):
        raise ValueError(f"EMAIL_PORT is a port from 1 to 65535, not {port!r}.")
    if tls not in ("", "starttls", "tls"):  # a slip of the pen must not send passwords in the clear
        raise ValueError(f"EMAIL_TLS is starttls, tls or unset, not {tls!r}.")
    return int(port), tls


def home_path() -> Path:
    return Path(os.environ.get("TRAINYARD_HOME") or ".trainyard").resolve()


def secret_key(home: Path) -> str:
    """Return the key of this home, made at the first start and kept in a file that only its owner reads."""
    path = home / "secret_key"
    if not path.exists():
        write_first(path, secrets.token_urlsafe(50))
    return path.read_text()


def socket_path(home: Path) -> Path:
    """Return where the embedded Valkey of ``home`` listens: inside it, or in the runtime folder under a short name."""
    path = home / "valkey" / "valkey.sock"
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return path
    name = f"{hashlib.sha256(os.fsencode(home)).hexdigest()[:12]}.sock"
    path = _runtime_folder() / name
    return path if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH else _own_folder(SHORT_TEMPORARY) / name


def tls_folder(home: Path) -> Path:
    """Return where the certificates are that the server serves with (`trainyard tls init` makes them)."""
    return home / "tls"


def serves_tls(home: Path) -> bool:
    """Return whether this home is served with TLS: it has a certificate, and TLS is not switched off."""
    return (tls_folder(home) / SERVER).exists() and os.environ.get("TLS", "").lower() != "off"


def authorities_file(home: Path) -> Path | None:
    """Return the file of authorities by which others trust this home; None where those of their systems will do."""
    path = tls_folder(home) / AUTHORITIES
    return path if serves_tls(home) and path.exists() and path.stat().st_size else None


def valkey_password(home: Path) -> str:
    """Return the password of the server's own user in the embedded Valkey, where other machines reach that one."""
    key = os.environ.get("SECRET_KEY") or secret_key(home)
    return hmac.new(key.encode(), b"valkey server", hashlib.sha256).hexdigest()


def embedded_valkey_url(home: Path) -> str:
    login = f"default:{valkey_password(home)}@" if serves_tls(home) else ""
    return f"unix://{login}{socket_path(home)}"


def _runtime_folder() -> Path:
    """Return this user's folder for sockets: $XDG_RUNTIME_DIR, else one under the folder for temporary files."""
    given = os.environ.get("XDG_RUNTIME_DIR")
    if given and Path(given).is_dir() and os.access(given, os.W_OK):
        return Path(given)
    return _own_folder(tempfile.gettempdir())


def _own_folder(temporary: str) -> Path:
    return Path(temporary) / f"trainyard-{os.getuid()}"


def make_private(folder: Path) -> None:
    """Make ``folder`` with mode 0700. Raises UnsafeFolder where it exists and is somebody else's, or a link."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = folder.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
        raise UnsafeFolder(f"{folder} is not a folder of yours, so nothing private can be kept in it.")
    folder.chmod(0o700)


LAST_BACKUP = "last_backup.json"  # in the home: when, and where to
# In a home that was unpacked from a backup, until the people who were erased since then are erased in it, too.
RESTORE_MARKER = "from_backup.json"


INSTALLED = Path(__file__).resolve().parent / "assets"
ROOT = INSTALLED if INSTALLED.is_dir() else INSTALLED.parents[1]
EXAMPLES = ROOT / "examples"
