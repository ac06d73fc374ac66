"""Network namespaces on one bridge: nodes with addresses of their own, whose links can be cut in silence."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

NOWHERE = "02:00:00:00:00:fe"  # nobody has this address: what is sent to it is lost in silence


@dataclass
class Networks:
    """One bridge with the server's address, and a namespace for each node."""

    tag: str
    subnet: str
    names: list[str] = field(default_factory=list)

    @property
    def server(self) -> str:
        return f"{self.subnet}.1"

    def address(self, name: str) -> str:
        return f"{self.subnet}.{10 + self.names.index(name)}"

    def prefix(self, name: str) -> list[str]:
        """What stands before a command that is to run there."""
        return ["ip", "netns", "exec", self._space(name)]

    def add(self, name: str) -> None:
        self.names.append(name)
        space, number = self._space(name), len(self.names)
        ours, theirs = f"{self.tag}v{number}", f"{self.tag}w{number}"
        run("netns", "add", space)
        run("link", "add", ours, "type", "veth", "peer", "name", theirs)
        run("link", "set", theirs, "netns", space)
        run("link", "set", ours, "master", self.tag, "up")
        run("-n", space, "link", "set", "lo", "up")
        run("-n", space, "addr", "add", f"{self.address(name)}/24", "dev", theirs)
        run("-n", space, "link", "set", theirs, "up")

    def cut(self, one: str, other: str) -> None:
        """Lose what the two send to each other."""
        self._lose(one, self.address(other))
        self._lose(other, self.address(one))

    def heal(self, one: str, other: str) -> None:
        self._find(one, self.address(other))
        self._find(other, self.address(one))

    def cut_from_server(self, name: str) -> None:
        """Lose what the node sends to the server, and with it every answer."""
        self._lose(name, self.server)

    def heal_to_server(self, name: str) -> None:
        self._find(name, self.server)

    def unplug(self, name: str) -> None:
        """Nothing arrives there or comes from there any more, as after a loss of power."""
        run("link", "set", f"{self.tag}v{self.names.index(name) + 1}", "down")

    def plug_in(self, name: str) -> None:
        run("link", "set", f"{self.tag}v{self.names.index(name) + 1}", "up")

    def close(self) -> None:
        for name in self.names:
            run("netns", "del", self._space(name), may_fail=True)
        run("link", "del", self.tag, may_fail=True)

    def _lose(self, name: str, address: str) -> None:
        device = f"{self.tag}w{self.names.index(name) + 1}"
        run("-n", self._space(name), "neigh", "replace", address, "lladdr", NOWHERE, "nud", "permanent", "dev", device)

    def _find(self, name: str, address: str) -> None:
        device = f"{self.tag}w{self.names.index(name) + 1}"
        run("-n", self._space(name), "neigh", "del", address, "dev", device)

    def _space(self, name: str) -> str:
        return f"{self.tag}-{name}"


def run(*words: str, may_fail: bool = False) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert may_fail or done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


@contextmanager
def networks(*names: str) -> Iterator[Networks]:
    """Yield namespaces of these names; skip where this process may not make any."""
    if os.getuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and ip")
    number = os.getpid() % 200 + 20
    made = Networks(f"ty{number}", f"10.177.{number}")
    try:
        probe = subprocess.run(["ip", "link", "add", made.tag, "type", "bridge"], capture_output=True, check=False)
        if probe.returncode != 0:
            pytest.skip(f"network namespaces are not allowed here: {probe.stderr.decode().strip()}")
        run("addr", "add", f"{made.server}/24", "dev", made.tag)
        run("link", "set", made.tag, "up")
        for name in names:
            made.add(name)
        yield made
    finally:
        made.close()
