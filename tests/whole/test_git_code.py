"""A run from a repository, over a path and over ssh, through every process that there is."""

from __future__ import annotations

import time

import pytest

from tests.git_servers import Repository, Sshd
from tests.servers import short_folder
from tests.up_process import Up
from tests.whole.runs import Yard

pytestmark = pytest.mark.extended
SCRIPT = """
import pathlib, sys
from . import helpers
pathlib.Path(sys.argv[1], "word.txt").write_text(helpers.word)
print(helpers.word, __package__)
"""


@pytest.mark.timeout(300)
def test_a_run_has_the_commit_that_was_pinned_and_the_second_begins_sooner(capsys: pytest.CaptureFixture[str]) -> None:
    with short_folder("ty-git-") as folder:
        repository = Repository(folder / "code")
        (repository.folder / "pkg").mkdir()
        for name, text in (("__init__", ""), ("train", SCRIPT), ("helpers", "word = 'first'\n")):
            (repository.folder / "pkg" / f"{name}.py").write_text(text)
        first = repository.commit("First word")
        sshd = Sshd(folder / "sshd")
        sshd.start()
        up = Up(folder / "home", NODES="1", GIT_FILE_ROOTS=str(folder), TRAINYARD_DATA_HOSTS="127.0.0.1")
        try:
            up.wait_until_said("Nodes in contact")
            with Yard(up) as yard:
                took = [_run(yard, repository.url, first, "first") for _ in range(2)]
                (repository.folder / "pkg" / "helpers.py").write_text("word = 'second'\n")
                second = repository.commit("Second word")
                body = {"kind": "ssh", "place": "127.0.0.1", "secret": sshd.key}
                assert yard.http.post("/projects/default/git-keys", json=body).status_code == 201
                took += [_run(yard, sshd.url(repository.folder), second, "second") for _ in range(2)]
            with capsys.disabled():
                words = ", ".join(f"{fetch:.2f} s to fetch, {whole:.2f} s in all" for fetch, whole in took)
                print(f"\npath, again, ssh, again: {words}")
        finally:
            up.close()
            sshd.stop()


def _run(yard: Yard, url: str, commit: str, word: str) -> tuple[float, float]:
    """Return the seconds of the fetch, and from the submit to the end."""
    started = time.monotonic()
    task = {"module": "pkg.train", "arguments": ["${TRAINYARD_OUTPUT}"], "code": {"git": url, "revision": "main"}}
    run = yard.submit({"name": "from-git", "task": task})
    ended = yard.wait_for_end(run)
    took = time.monotonic() - started
    assert ended["status"] == "SUCCEEDED", ended["reason"]
    code = yard.get(f"/runs/{run}/code")
    assert (code["commit"], code["branch"], code["author"]) == (commit, "main", "Ada")
    assert yard.file(run, "word.txt").decode() == word
    return float(code["fetch_s"]), took
