"""Spark's own cluster in a run (``task.launch: spark``): each rank is a worker, and rank 0 the driver, too.

Rank 0 executes the script, with the master and its worker beside it. The others execute none, and end with the driver.
All of them have a secret of the attempt, by which they know each other and encrypt what they send. Executors inherit
the variables of their rank, so that the SDK logs to the run.
"""

import base64
import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import msgspec

from workers.machine.processes import Exit, die_with_parent, name_process

PATIENCE_S = 180.0  # in which the master begins: two virtual machines of Java start on a busy node
POLL_EVERY_S = 0.2
COPIED_BYTES = 1 << 16
PARTS = __file__.removesuffix(".py") + "_"  # files of configuration beside this one
CLASSES = {"master": "org.apache.spark.deploy.master.Master", "worker": "org.apache.spark.deploy.worker.Worker"}
NEEDED = {
    "java": "Spark needs java, which this node lacks: install a JRE, such as Debian's openjdk-17-jre-headless",
    "spark-class": "Spark is not installed here: name pyspark in environment.requirements",
}
DEFAULTS = {"SPARK_WORKER_CORES": "1", "SPARK_DAEMON_MEMORY": "512m"}
JAVAS = (b"WARN ", b"ERROR ", b"FATAL ", b"\tat ", b"Caused by: ", b"java.", b"org.")  # lines of its log


class SparkCluster(msgspec.Struct, frozen=True):
    """A cluster of the attempt. ``master``: host:port beside rank 0; ``address``: of this rank's node."""

    master: str
    address: str
    secret: str


def join_cluster(cluster: SparkCluster, rank: int, environment: Mapping[str, str], *folders: Path) -> dict[str, str]:
    """Return the driver's environment once the master listens. Other ranks end in here, as does one without Java.
    ``folders``: of the code and the SDK, which executors import from, too."""
    java, path = environment.get("JAVA_HOME"), environment.get("PATH", os.defpath)
    for program, sentence in NEEDED.items():
        if shutil.which(program, path=f"{java}/bin" if java and program == "java" else path) is None:
            _leave(sentence)
    folder = Path(environment["TMPDIR"]) / f"spark-{rank}"
    (folder / "conf").mkdir(mode=0o700, parents=True, exist_ok=True)
    page_key = base64.urlsafe_b64encode(os.urandom(48)).decode()
    settings = (
        Path(f"{PARTS}defaults.txt")
        .read_text()
        .format(folder=folder, page_key=page_key, **msgspec.structs.asdict(cluster))
    )
    (folder / "conf" / "spark-defaults.conf").write_text(settings)
    shutil.copy(f"{PARTS}log4j2.txt", folder / "conf" / "log4j2.properties")
    joined = {
        "SPARK_DAEMON_JAVA_OPTS": f"-XX:-UsePerfData -Djava.io.tmpdir={folder}",
        **DEFAULTS,
        **environment,
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",  # of the web pages
        "SPARK_WORKER_DIR": str(folder / "work"),
        "PYTHONPATH": os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), *map(str, folders)])),
    }
    driver = os.getpid()
    if rank != 0:
        _leave(_Daemons(cluster, joined).serve())
    if os.fork() == 0:
        try:
            die_with_parent(signal.SIGKILL, driver)
            name_process("ty-spark")
            _say(_Daemons(cluster, joined).serve(has_master=True))
        except BaseException as error:
            _say(f"Spark's processes failed: {error!r}")
        finally:
            os.kill(driver, signal.SIGKILL)
            os._exit(1)
    with contextlib.suppress(TimeoutError):  # the helper says why, and ends us
        _reach(cluster.master).close()
    return joined


class _Daemons:
    """Spark's processes that run beside a rank. They end with the process that makes this."""

    def __init__(self, cluster: SparkCluster, environment: Mapping[str, str]) -> None:
        self._cluster, self._environment = cluster, environment
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._copied: dict[Path, int] = {}

    def serve(self, *, has_master: bool = False) -> str:
        """Return why it is over: empty where the driver has ended."""
        host, _, port = self._cluster.master.rpartition(":")
        if has_master:
            self._start("master", "--host", host, "--port", port)
        try:
            master = _reach(self._cluster.master, self._why_ended)
        except TimeoutError as error:
            return self._why_ended() or str(error)
        self._start("worker", "--host", self._cluster.address, f"spark://{self._cluster.master}")
        while not (why := self._why_ended()):
            if select.select([] if has_master else [master], [], [], POLL_EVERY_S)[0]:  # it closed the connection
                master.close()
                try:
                    master = socket.create_connection((host, int(port)), PATIENCE_S)
                except OSError:  # it is gone
                    return ""
            self._copy_errors()
        return why

    def _start(self, name: str, *words: str) -> None:
        parent = os.getpid()
        self._running[name] = subprocess.Popen(
            ["spark-class", CLASSES[name], "--webui-port", "0", *words],
            env=self._environment, preexec_fn=lambda: die_with_parent(signal.SIGKILL, parent),
        )  # fmt: skip

    def _why_ended(self) -> str:
        for name, process in self._running.items():
            if (code := process.poll()) is not None:
                ending = Exit(None, -code) if code < 0 else Exit(code, None).through_shell()
                how = f"by {signal.Signals(ending.signal).name}" if ending.signal else f"with exit code {code}"
                return f"Spark's {name} ended {how}"
        return ""

    def _copy_errors(self) -> None:
        """Copy what Java wrote in executors into the rank's log. What Python prints there Spark sends to the driver."""
        for path in Path(self._environment["SPARK_WORKER_DIR"]).glob("*/*/stderr"):
            with contextlib.suppress(OSError), path.open("rb") as file:
                file.seek(self._copied.get(path, 0))
                lines = file.read(COPIED_BYTES).splitlines(keepends=True)
                self._copied[path] = file.tell()
                os.write(2, b"".join(line for line in lines if line.startswith(JAVAS)))


def _reach(master: str, is_over: Callable[[], object] = lambda: False) -> socket.socket:
    """Return a connection to the master, whose end is the driver's. Raises TimeoutError, too where it is over."""
    host, _, port = master.rpartition(":")
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and not is_over():
        with contextlib.suppress(OSError):
            return socket.create_connection((host, int(port)), PATIENCE_S)
        time.sleep(POLL_EVERY_S)
    raise TimeoutError(f"Spark's master at {master} was not reached")


def _leave(sentence: str) -> NoReturn:
    _say(sentence)
    sys.stderr.flush()
    os._exit(1 if sentence else 0)


def _say(sentence: str) -> None:
    if sentence:
        os.write(2, f"Trainyard: {sentence}.\n".encode())
