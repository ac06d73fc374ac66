"""Commands that are programs of their own: this process becomes them, so that signals and exit codes are theirs. The
command ``shadow`` becomes any, whose numbers for other tools come to Trainyard too."""

import argparse
import os
import shutil
import sys

from trainyard.cli.screen import Screen
from trainyard.extras import lacking
from trainyard.shadow import variables

PROGRAMS = {
    "up": ("dashboard.up", "start Trainyard on this machine"),
    "serve": ("dashboard.serve", "run one process of the site: web, control or ingest"),
    "migrate": ("dashboard.serve migrate", "bring the databases up to date, before `serve`"),
    "node": ("workers.node", "start a node worker (--join TOKEN --server URL on another machine)"),
    "doctor": ("dashboard.doctor", "say what keeps nodes from the server, or a cluster from training (--cluster NAME)"),
    "tls": ("dashboard.tls", "make, show, renew and rotate the server's certificates"),
    "backup": ("dashboard.backup", "copy all state to FILE, consistently, while Trainyard runs"),
    "restore": ("dashboard.restore", "make a home of a backup, without people who were erased since"),
    "to-postgresql": ("dashboard.moving", "copy this home's SQLite files into the PostgreSQL of DATABASE_URL"),
    "support": ("dashboard.support", "pack versions, findings, numbers and logs without secrets, for those who help"),
    "sign-in-link": ("dashboard.sign_in", "print a link that signs in once"),
    "manage": ("dashboard.manage", "run a command of Django's on the server: migrate, audit, person, erasures, …"),
}

# Needs beside the client; of the others the server's. `up` starts local nodes, too; recipes say what they lack.
NEEDS = {"up": ("server", "node"), "node": ("node",), "doctor": ("server", "node")}


def become(command: str, words: list[str]) -> int:
    """Replace this process by the program of ``command``. Returns only where that cannot be done."""
    sys.stdout.flush()
    sys.stderr.flush()
    module, *first = PROGRAMS[command][0].split()
    for extra in NEEDS.get(command, ("server",)):
        if sentence := lacking(f"trainyard {command}", extra):
            print(sentence, file=sys.stderr)
            return 1
    # -P: the current folder may be anybody's, and nothing is imported from it. This never returns.
    os.execv(sys.executable, [sys.executable, "-P", "-m", module, *first, *words])


NOT_FOUND = 127


def completion(_: object, arguments: argparse.Namespace, screen: Screen) -> None:
    """Print what a shell reads to complete our commands."""
    from argcomplete.shell_integration import shellcode

    print(shellcode(["trainyard"], shell=arguments.shell))


def shadow(_: object, arguments: argparse.Namespace, screen: Screen) -> int:
    """Become the program. Returns only where it cannot be started."""
    words = arguments.words
    if not words:
        screen.complain("shadow: a command behind -- is missing, such as: trainyard shadow -- python train.py")
        return 2
    environment = variables(os.environ.get("PYTHONPATH"), only=arguments.only, project=arguments.project)
    if shutil.which(words[0]) is None:
        screen.complain(f"shadow: there is no program {words[0]}")
        return NOT_FOUND
    os.execvpe(words[0], words, {**os.environ, **environment})
