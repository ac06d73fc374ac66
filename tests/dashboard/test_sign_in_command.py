"""`python -m dashboard.sign_in` prints a link that works once."""

from __future__ import annotations

import subprocess
import sys

import httpx

from tests.up_process import Up


def ask(up: Up, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "TRAINYARD_HOME": str(up.home)}
    command = [sys.executable, "-m", "dashboard.sign_in", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_link_signs_in_once(running_trainyard: Up) -> None:
    link = ask(running_trainyard).stdout.strip()
    assert link.startswith(running_trainyard.url)
    with httpx.Client() as browser:
        first = browser.get(link)
        assert first.status_code == 302
        assert browser.get(running_trainyard.url + "/").status_code == 200
    assert httpx.get(link).status_code == 410


def test_somebody_unknown_is_named(running_trainyard: Up) -> None:
    done = ask(running_trainyard, "nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Nobody here is called 'nobody'." in done.stderr
