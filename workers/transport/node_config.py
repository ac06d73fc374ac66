"""Configuration of a node: itself and its server, kept in ``node.toml`` of its home."""

import json
import os
import re
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from trainyard.spooling.plain_files import write_private


class CannotStart(Exception):
    """The node worker cannot start; the message is one sentence for the person at the terminal."""


@dataclass(frozen=True)
class NodeConfig:
    server: str
    id: str
    name: str
    key: str
    redis_url: str
    cluster: str


def node_home(home: Path, name: str) -> Path:
    return home.resolve() / "nodes" / name


def checkpoints_root(home: Path) -> Path:
    """Return the folder under which each run keeps its checkpoints, all nodes of a cluster the same where they can."""
    given = os.environ.get("TRAINYARD_CHECKPOINTS")
    return Path(given).absolute() if given else home / "checkpoints"


def project_cache(home: Path, project: str) -> Path:
    """Return where the ranks of a project keep what is made of data once, and others' ranks do not look."""
    return home / "cache" / "projects" / (re.sub(r"[^A-Za-z0-9_-]", "", project)[:60] or "none")


def make_home(path: Path) -> None:
    """Create the node's folders. Raises CannotStart where that is not possible."""
    try:
        for folder in (path, path / "attempts", path / "cache" / "bundles"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = path / f".writable.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise CannotStart(f"The node's home {path} is not writable: {error.strerror or error}.") from error


def load_config(home: Path) -> NodeConfig | None:
    """Return the stored configuration, None when this node has not joined. Raises CannotStart when it is damaged."""
    path = home / "node.toml"
    try:
        return NodeConfig(**tomllib.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise CannotStart(f"{path} cannot be read ({error}); remove it and join again.") from error


def store_config(home: Path, config: NodeConfig) -> None:
    """Write node.toml, readable by its owner only from its first byte on."""
    # A JSON string is a TOML basic string.
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in asdict(config).items())
    write_private(home / "node.toml", text)


def check_redis_url(url: str) -> None:
    """Raise CannotStart when the server's Valkey is a socket of another machine."""
    parts = urlsplit(url)
    if parts.scheme == "unix" and not Path(unquote(parts.path)).exists():
        raise CannotStart(
            f"The server's Valkey is the Unix socket {parts.path}, which does not exist on this machine; "
            "start the server with a REDIS_URL that this machine reaches, or start the server first."
        )
