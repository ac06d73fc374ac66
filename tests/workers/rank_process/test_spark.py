"""What runs beside a rank of Spark's, with programs in place of Spark's own."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import os, sys, time
from pathlib import Path
from workers.attempt.folder import AttemptFolder
from workers.rank_process.spark import SparkCluster, join_cluster
rank, port, folder = int(sys.argv[1]), sys.argv[2], AttemptFolder(Path(sys.argv[3]))
folder.temporary.mkdir()
joined = join_cluster(SparkCluster("127.0.0.1", int(port), "127.0.0.1", "a secret"), rank, dict(os.environ), folder)
print(joined["SPARK_WORKER_CORES"], joined["PYTHONPATH"].split(":")[1], flush=True)
time.sleep(float(sys.argv[4]))
"""
# In place of spark-class: a master that listens, and a worker that says something and ends when it is told to.
PROGRAM = f"""#!{sys.executable}
import os, pathlib, socket, sys, time
if sys.argv[1].endswith("Master"):
    listener = socket.create_server(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])))
    while True:
        time.sleep(0.1)
folder = pathlib.Path(os.environ["SPARK_WORKER_DIR"], "app-1", "0")
folder.mkdir(parents=True)
(folder / "stderr").write_text("Spark Executor Command: java\\nprinted\\nERROR Executor: no memory\\n")
while not pathlib.Path(os.environ["TMPDIR"], "end-worker").exists():
    time.sleep(0.05)
os.kill(os.getpid(), 9)
"""


class Rank:
    """A rank in a folder of its own."""

    def __init__(self, folder: Path, number: int, port: int, *, lasts_s: float = 60, has_java: bool = True) -> None:
        self.folder = folder
        (folder / "bin").mkdir(parents=True)
        for name, text in {"spark-class": PROGRAM, **({"java": "#!/bin/sh\n"} if has_java else {})}.items():
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        environment = {"PATH": str(folder / "bin"), "TMPDIR": str(folder), "PYTHONPATH": str(Path.cwd())}
        words = [sys.executable, "-c", SCRIPT, str(number), str(port), str(folder), str(lasts_s)]
        with (folder / "stderr").open("w") as errors:
            self.process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)

    def end_worker(self) -> None:
        (self.folder / "end-worker").touch()

    def wait_for_words(self, words: str) -> None:
        deadline = time.monotonic() + 60
        while words not in (self.folder / "stderr").read_text():
            assert time.monotonic() < deadline, (self.folder / "stderr").read_text()
            time.sleep(0.05)

    def end(self) -> int:
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            assert self.process.stdout is not None
            self.process.stdout.close()


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number: int = listener.getsockname()[1]
        return number


def test_the_other_ranks_are_workers_until_the_driver_has_ended(tmp_path: Path, port: int) -> None:
    driver, other = Rank(tmp_path / "0", 0, port, lasts_s=3), Rank(tmp_path / "1", 1, port)
    assert driver.process.stdout is not None
    assert (
        driver.process.stdout.readline() == f"1 {tmp_path / '0' / 'code'}\n"
    )  # modules beside the script are executors', too
    other.wait_for_words("ERROR Executor: no memory\n")
    assert "printed" not in (other.folder / "stderr").read_text()
    assert (driver.end(), other.end()) == (0, 0)
    settings = tmp_path / "0" / "tmp" / "spark-0" / "conf" / "spark-defaults.conf"
    assert "spark.authenticate.secret a secret\n" in settings.read_text()
    assert settings.parent.stat().st_mode & 0o77 == 0, "others read the secret"
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), 5)


def test_a_worker_that_ended_ends_its_rank_with_a_sentence(tmp_path: Path, port: int) -> None:
    driver, other = Rank(tmp_path / "0", 0, port), Rank(tmp_path / "1", 1, port)
    other.wait_for_words("ERROR Executor: no memory\n")
    other.end_worker()
    assert other.end() == 1
    other.wait_for_words("Trainyard: Spark's worker ended by SIGKILL.\n")
    driver.wait_for_words("ERROR Executor: no memory\n")
    driver.end_worker()
    assert driver.end() == -signal.SIGKILL
    driver.wait_for_words("Trainyard: Spark's worker ended by SIGKILL.\n")


def test_a_node_without_java_says_so(tmp_path: Path, port: int) -> None:
    rank = Rank(tmp_path / "0", 0, port, has_java=False)
    assert rank.end() == 1
    rank.wait_for_words("Trainyard: Spark needs java, which this node lacks: install a JRE, such as Debian's openjdk")
