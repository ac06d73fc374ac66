"""Commands that are programs of their own: this process becomes them, so that signals and exit codes are theirs."""

import os
import sys

from trainyard.extras import lacking

PROGRAMS = {
    "up": ("dashboard.up", "start Trainyard on this machine"),
    "node": ("workers.node", "start a node worker (--join TOKEN --server URL on another machine)"),
    "doctor": ("dashboard.doctor", "say what keeps nodes from the server, or a cluster from training (--cluster NAME)"),
    "tls": ("dashboard.tls", "make, show, renew and rotate the server's certificates"),
    "backup": ("dashboard.backup", "copy all state to FILE, consistently, while Trainyard runs"),
    "restore": ("dashboard.restore", "make a home of a backup, without people who were erased since"),
    "sign-in-link": ("dashboard.sign_in", "print a link that signs in once"),
    "manage": ("dashboard.manage", "run a command of Django's on the server: migrate, audit, person, erasures, …"),
}

# Needs of each beside the client. `up` starts local nodes, too; recipes say themselves what they lack.
NEEDS = {
    "up": ("server", "node"), "node": ("node",), "backup": ("server",), "restore": ("server",),
    "doctor": ("server", "node"), "tls": ("server",), "sign-in-link": ("server",), "manage": ("server",),
}  # fmt: skip


def become(command: str, words: list[str]) -> int:
    """Replace this process by the program of ``command``. Returns only where that cannot be done."""
    sys.stdout.flush()
    sys.stderr.flush()
    module, _ = PROGRAMS[command]
    for extra in NEEDS[command]:
        if sentence := lacking(f"trainyard {command}", extra):
            print(sentence, file=sys.stderr)
            return 1
    os.execv(sys.executable, [sys.executable, "-m", module, *words])  # never returns
