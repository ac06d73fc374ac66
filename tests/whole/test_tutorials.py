"""The tutorials are followed to the letter: files are saved, commands run in one bash, and outputs are compared.

How a tutorial is written: "Save this as `NAME`:" before a block makes a file of it. A block `sh` is a command; the
block `text` behind it is what it prints, where `…` is anything within a line, and alone on a line any lines. "In a
terminal of its own:" goes before a program that stays; "On the second machine:" before one there, which here has
another home. "In the browser of who was invited:" goes before a page to open, as bash writes it, and what to type into
its form, by its labels. One that needs `sbatch` is followed beside a Slurm of two machines.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import pytest

from dashboard.up.parent_death import tethered
from tests import migrated
from tests.servers import free_port, short_folder
from tests.slurm import running_slurm
from tests.up_process import OURS, PATIENCE_S, ROOT

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r"(?:^(?P<before>[^\n]+)\n\n)?^```(?P<kind>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
OWN, SECOND, SAVED = "In a terminal of its own:", "On the second machine:", re.compile(r"Save this as `([\w./-]+)`:$")
BROWSER = "In the browser of who was invited:"
END = "-- end of the block:"


class Block(NamedTuple):
    before: str
    kind: str
    body: str


def blocks(text: str) -> list[Block]:
    return [Block(match["before"] or "", match["kind"], match["body"]) for match in BLOCK.finditer(text)]


def pattern(stated: str) -> re.Pattern[str]:
    """What a block `text` says, as an expression; columns may be wider or narrower."""
    lines = []
    for line in stated.strip().splitlines():
        words = [re.escape(part).replace(r"\ ", " +") for part in re.sub(" +", " ", line).split("…")]
        lines.append("(?:[^\n]*\n)*?" if line == "…" else "[^\n]*".join(words) + " *(?:\n|$)")
    return re.compile("".join(lines))


class Reader:
    """Somebody who does what a tutorial says, in a folder of their own."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        self.port = str(free_port())
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        path = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
        self.environment = {
            **inherited,
            "PATH": path,
            "HOME": str(folder),
            "TRAINYARD_MEMORY": str(folder),
            **variables,
        }
        self.staying: list[subprocess.Popen[bytes]] = []
        self.bash = self.start(["bash"], folder / ".terminal", {}, stdin=subprocess.PIPE)

    def start(
        self, words: list[str], terminal: Path, environment: dict[str, str], stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        with terminal.open("wb") as output:
            return subprocess.Popen(
                tethered(words), cwd=self.folder, env={**self.environment, **environment}, stdin=stdin, stdout=output,
                stderr=subprocess.STDOUT,
            )  # fmt: skip

    def save(self, name: str, body: str) -> None:
        (self.folder / name).write_text(body)

    def run(self, command: str) -> str:
        """Run it in the one bash, and return what it printed."""
        begin = (self.folder / ".terminal").stat().st_size
        assert self.bash.stdin is not None
        self.bash.stdin.write(f"{{ {command}}} < /dev/null\necho '{END}'\n".encode())
        self.bash.stdin.flush()
        return self.wait(self.folder / ".terminal", re.compile(f"(.*){END}", re.DOTALL), begin)[1]

    def leave_running(self, command: str, stated: str, environment: dict[str, str]) -> None:
        output = self.folder / f".terminal-{len(self.staying)}"
        self.staying.append(self.start(["bash", "-c", command.strip()], output, environment))
        self.wait(output, pattern(stated))

    def fill_in(self, page: str) -> None:
        """Open the page and send its form, as a browser without a session does."""
        typed = dict(line.split(": ", 1) for line in page.splitlines())
        url = self.run(f"echo {typed.pop('open')}\n").strip()
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        form = browser.open(url).read().decode()
        fields = {"csrfmiddlewaretoken": re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', form)[0]}
        fields |= {re.findall(rf'<label for="field-(\w+)">{label}<', form)[0]: typed[label] for label in typed}
        browser.open(urllib.request.Request(url, urlencode(fields).encode(), {"Referer": url})).read()

    def wait(self, output: Path, expected: re.Pattern[str], begin: int = 0) -> re.Match[str]:
        deadline = time.monotonic() + PATIENCE_S
        while not (match := expected.match(said := output.read_bytes()[begin:].decode())):
            assert time.monotonic() < deadline, f"not {expected.pattern!r} but:\n{said}"
            time.sleep(0.1)
        return match

    def close(self) -> None:
        assert self.bash.stdin is not None
        self.bash.stdin.close()
        for process in [self.bash, *reversed(self.staying)]:
            process.terminate()
            process.wait(30)


@pytest.fixture
def reader(path: Path) -> Iterator[Reader]:
    with ExitStack() as stack:
        variables = {"VALKEY_TLS_PORT": str(free_port())}
        if "`sbatch`" in path.read_text():
            variables["SLURM_CONF"] = str(stack.enter_context(running_slurm(2)).conf)
        folder = stack.enter_context(short_folder("ty-read-"))
        home = folder / ".trainyard"
        home.mkdir(mode=0o700)
        migrated.copy_into(home)
        one = Reader(folder, **variables)
        stack.callback(one.close)
        yield one


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_followed_to_the_letter_shows_what_it_says(path: Path, reader: Reader) -> None:
    every = blocks(path.read_text().replace("8000", reader.port))
    for block, following in zip(every, [*every[1:], Block("", "", "")], strict=True):
        stated = following.body if following.kind == "text" else ""
        if saved := SAVED.search(block.before):
            reader.save(saved[1], block.body)
        elif block.before.endswith(BROWSER):
            reader.fill_in(block.body)
        elif block.kind == "sh" and block.before.endswith(OWN):
            reader.leave_running(block.body, stated, {})
        elif block.kind == "sh" and block.before.endswith(SECOND):
            second = reader.folder / "second"
            reader.leave_running(block.body, stated, {"HOME": str(second), "TRAINYARD_HOME": str(second)})
        elif block.kind == "sh":
            said = reader.run(block.body)
            if stated:
                assert pattern(stated).fullmatch(said), f"{block.body}says\n{said}\nand not\n{stated}"


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_is_short_and_each_of_its_blocks_is_followed(path: Path) -> None:
    text = path.read_text()
    assert len(text.split()) < 1200
    found = blocks(text)
    assert text.count("```") == 2 * len(found)
    assert any(block.kind == "text" for block in found)
    for block in found:
        assert block.kind in ("sh", "text") or SAVED.search(block.before) or block.before == BROWSER, block.body


def test_an_output_that_differs_is_noticed() -> None:
    assert pattern("name  …\n…\ndone\n").fullmatch("name     x y\n1\n2\ndone\n")
    assert not pattern("name  …\n…\ndone\n").fullmatch("name     x y\n1\n2\nfailed\n")
    assert not pattern("2 of 2\n").fullmatch("2 of 3\n")
