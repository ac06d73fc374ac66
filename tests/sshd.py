"""A real sshd on the loopback: its own folder, port, host key and one key that it lets in."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from dashboard.up.parent_death import tethered
from tests.servers import free_port, short_folder

PATIENCE_S = 15.0
CONF = """
ListenAddress {address}
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
MaxStartups 100
"""


class Sshd:
    def __init__(self, folder: Path, name: str, address: str = "127.0.0.1") -> None:
        self.folder = folder / name
        self.folder.mkdir(mode=0o700)
        self.address = address
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.key = folder / "key"  # one for all of the folder
        if not self.key.exists():
            make_key(self.key)
        (self.folder / "authorized_keys").write_text(self.key.with_suffix(".pub").read_text())
        make_key(self.folder / "host_key")

    @property
    def host_key(self) -> str:
        return " ".join((self.folder / "host_key.pub").read_text().split()[:2])

    @property
    def user(self) -> str:
        return getpass.getuser()

    @property
    def label(self) -> str:
        return f"{self.user}@{self.address}:{self.port}"

    def start(self) -> None:
        config = self.folder / "sshd_config"
        config.write_text(CONF.format(address=self.address, port=self.port, folder=self.folder))
        with (self.folder / "sshd.log").open("ab") as output:
            self.process = subprocess.Popen(
                tethered([sshd_program(), "-D", "-e", "-f", str(config)]), stdout=output, stderr=output
            )
        deadline = time.monotonic() + PATIENCE_S
        while not self._answers():
            assert time.monotonic() < deadline, (self.folder / "sshd.log").read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        """End it with its connections, as a machine that goes away; what was started through it goes on."""
        if self.process is None:
            return
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                if child.name() == "sshd":
                    child.kill()
        self.process.kill()
        self.process.wait()
        self.process = None

    def change_host_key(self) -> None:
        """As a machine that was set up anew, or another one in its place."""
        self.stop()
        for name in ("host_key", "host_key.pub"):
            (self.folder / name).unlink()
        make_key(self.folder / "host_key")
        self.start()

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection((self.address, self.port), 1) as probe:
            return probe.recv(4) == b"SSH-"
        return False


def sshd_program() -> str:
    return shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or ""


def need_sshd() -> None:
    """Skip the test where this machine has no sshd. Set-up installs none: Debian's package starts one on port 22."""
    if not sshd_program():
        pytest.skip("sshd is not on this machine (Debian: apt-get install openssh-server)")


def make_key(path: Path) -> None:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)]
    subprocess.run(words, check=True, capture_output=True, timeout=30)


@contextmanager
def running_hosts(*addresses: str) -> Iterator[list[Sshd]]:
    """Start one sshd for each address, or skip the test where this machine has none, or we may not start it."""
    need_sshd()
    if os.geteuid() != 0:
        pytest.skip("sshd lets in another user only as root")
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    with short_folder("ty-ssh-") as folder:
        hosts = [Sshd(folder, f"host{number}", address) for number, address in enumerate(addresses, start=1)]
        try:
            for host in hosts:
                host.start()
            yield hosts
        finally:
            for host in hosts:
                host.stop()
