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
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from workers.attempt.folder import AttemptFolder
from workers.machine.processes import Exit, die_with_parent, name_process

PATIENCE_S = 180.0  # in which the master begins: two virtual machines of Java start on a busy node
POLL_EVERY_S = 0.2
PARTS = __file__.removesuffix(".py") + "_"  # files of configuration beside this one
CLASSES = {"master": "org.apache.spark.deploy.master.Master", "worker": "org.apache.spark.deploy.worker.Worker"}
NEEDED = {
    "java": "Spark needs java, which this node lacks: install a JRE, such as Debian's openjdk-17-jre-headless",
    "spark-class": "Spark is not installed here: name pyspark in environment.requirements",
}
JAVAS = (b"WARN ", b"ERROR ", b"FATAL ", b"\tat ", b"Caused by: ", b"java.", b"org.")


class SparkCluster(msgspec.Struct, frozen=True):
    """A cluster of the attempt. Its master is at ``host`` and ``port``; ``address`` is of this rank's node."""

    host: str
    port: int
    address: str
    secret: str


def join_cluster(cluster: SparkCluster, rank: int, own: Mapping[str, str], attempt: AttemptFolder) -> dict[str, str]:
    """Return the driver's environment once the master listens. Other ranks end in here, as does one without Java."""
    java, path = own.get("JAVA_HOME"), own.get("PATH", os.defpath)
    for program, sentence in NEEDED.items():
        if shutil.which(program, path=f"{java}/bin" if java and program == "java" else path) is None:
            os._exit(_say(sentence))
    folder = attempt.temporary / f"spark-{rank}"
    conf = folder / "conf"
    conf.mkdir(mode=0o700, parents=True)
    values = {"folder": folder, "page_key": base64.urlsafe_b64encode(os.urandom(48)).decode()}
    settings = Path(f"{PARTS}defaults.txt").read_text()
    (conf / "spark-defaults.conf").write_text(settings.format(**values, **msgspec.structs.asdict(cluster)))
    shutil.copy(f"{PARTS}log4j2.txt", conf / "log4j2.properties")
    joined = {
        "SPARK_DAEMON_JAVA_OPTS": f"-XX:-UsePerfData -Djava.io.tmpdir={folder}",
        "SPARK_WORKER_CORES": "1",
        **own,
        "SPARK_CONF_DIR": str(conf),
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",  # of the web pages
        "SPARK_WORKER_DIR": str(folder / "work"),
        "PYTHONPATH": os.pathsep.join(filter(None, [own.get("PYTHONPATH"), str(attempt.code), str(attempt.sdk)])),
    }
    if rank != 0:
        os._exit(_say(_serve(cluster, joined, has_master=False)))
    driver = os.getpid()
    if os.fork() != 0:
        _reach(cluster, {})  # the child ends us where it does not come
        return joined
    try:
        die_with_parent(signal.SIGKILL, driver)
        name_process("ty-spark")
        _say(_serve(cluster, joined, has_master=True))
    except BaseException as error:
        _say(f"Spark's processes failed: {error!r}")
    finally:
        os.kill(driver, signal.SIGKILL)
        os._exit(1)


def _serve(cluster: SparkCluster, environment: Mapping[str, str], *, has_master: bool) -> str:
    """Run Spark's processes beside a rank, which end with this one. Return why it is over: empty where the driver has
    ended."""
    running: dict[str, subprocess.Popen[bytes]] = {}
    copied: dict[Path, int] = {}
    if has_master:
        running["master"] = _start("master", environment, "--host", cluster.host, "--port", str(cluster.port))
    if (master := _reach(cluster, running)) is None:
        return _why_ended(running) or f"Spark's master at {cluster.host}:{cluster.port} was not reached"
    url = f"spark://{cluster.host}:{cluster.port}"
    running["worker"] = _start("worker", environment, "--host", cluster.address, url)
    while not (why := _why_ended(running)):
        if select.select([] if has_master else [master], [], [], POLL_EVERY_S)[0]:
            return ""  # the master closes the connection as it ends
        for path in Path(environment["SPARK_WORKER_DIR"]).glob("*/*/stderr"):
            with contextlib.suppress(OSError), path.open("rb") as file:
                file.seek(copied.get(path, 0))
                lines = file.read(1 << 16).splitlines(keepends=True)
                copied[path] = file.tell()
                os.write(2, b"".join(line for line in lines if line.startswith(JAVAS)))  # Spark sends the driver others
    return why


def _start(name: str, environment: Mapping[str, str], *words: str) -> subprocess.Popen[bytes]:
    parent = os.getpid()
    return subprocess.Popen(
        ["spark-class", CLASSES[name], "--webui-port", "0", *words],
        env=environment, preexec_fn=lambda: die_with_parent(signal.SIGKILL, parent),
    )  # fmt: skip


def _why_ended(running: Mapping[str, subprocess.Popen[bytes]]) -> str:
    for name, process in running.items():
        if (code := process.poll()) is not None:
            ending = Exit(None, -code) if code < 0 else Exit(code, None).through_shell()
            how = f"by {signal.Signals(ending.signal).name}" if ending.signal else f"with exit code {code}"
            return f"Spark's {name} ended {how}"
    return ""


def _reach(cluster: SparkCluster, running: Mapping[str, subprocess.Popen[bytes]]) -> socket.socket | None:
    """Return a connection to the master; None where none comes, or one of those that run has ended."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and not _why_ended(running):
        with contextlib.suppress(OSError):
            return socket.create_connection((cluster.host, cluster.port), PATIENCE_S)
        time.sleep(POLL_EVERY_S)
    return None


def _say(sentence: str) -> int:
    """Write it to the rank's log, and return the exit code that goes with it."""
    if sentence:
        os.write(2, f"Trainyard: {sentence}.\n".encode())
    return 1 if sentence else 0
