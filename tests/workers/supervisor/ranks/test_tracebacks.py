from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trainyard.contract.orders import Order
from trainyard.contract.reports import RankError
from trainyard.failures.ranks import explain_rank
from workers.attempt.folder import AttemptFolder
from workers.machine.processes import Exit
from workers.supervisor.failure_sentences import explained, reason_of
from workers.supervisor.ranks.state import RankState
from workers.supervisor.ranks.tracebacks import ending_in, error_in

FORGOT = """
import torch.distributed as dist

def main():
    dist.all_gather_object([None], 1)

main()
"""


def printed(folder: Path, text: str) -> str:
    (folder / "train.py").write_text(text)
    done = subprocess.run([sys.executable, str(folder / "train.py")], capture_output=True, text=True, timeout=60)
    return done.stderr


def test_the_exception_that_a_cold_rank_printed_is_found(tmp_path: Path) -> None:
    text = printed(tmp_path, "import json\ntry:\n    1/0\nexcept ZeroDivisionError:\n    json.loads('{')\n")
    found = error_in("a warning\n" + text + "a word at exit\n")
    assert found is not None
    assert (found.type, (found.message or "")[:10]) == ("JSONDecodeError", "Expecting ")
    assert 'train.py", line 5' in (found.traceback or "") and "at exit" not in (found.traceback or "")


def test_lines_that_torch_marked_with_the_rank_are_read_too() -> None:
    text = '[rank0]: Traceback (most recent call last):\n[rank0]:   File "a.py", line 1\n[rank0]: torch.E.Bad: no\n'
    assert error_in(text) == RankError(
        type="Bad",
        message="no",
        traceback='Traceback (most recent call last):\n  File "a.py", line 1\ntorch.E.Bad: no\n',
    )


def test_a_message_that_begins_with_a_line_end_is_read_behind_it(tmp_path: Path) -> None:
    found = error_in(printed(tmp_path, "raise ValueError('\\n  the shards differ\\nand more')") + "a word at exit\n")
    assert found is not None and (found.message or "").strip() == "the shards differ"
    bare = error_in(printed(tmp_path, "raise ValueError") + "a word at exit\n")
    assert bare is not None and bare.message == ""


def test_a_permission_that_is_missing_names_the_user_that_the_ranks_are(tmp_path: Path) -> None:
    error = RankError(type="PermissionError", message="[Errno 13] Permission denied: '/data/a'", traceback="")
    assert explained(error, tmp_path, has_joined=False, user=60017).message == (
        "[Errno 13] Permission denied: '/data/a'; the ranks of this project are Unix user 60017 here, to whom it must "
        "be open (docs/isolation_disk.md)."
    )
    assert explained(error, tmp_path, has_joined=False) == error


def test_what_is_no_traceback_or_only_half_of_one_is_none() -> None:
    for text in ("", "Error: no", "Traceback (most recent call last):\n", "Traceback (most recent call last):\n  F\n"):
        assert error_in(text) is None


def test_a_missing_process_group_is_told_with_the_line_of_the_users_own(tmp_path: Path) -> None:
    error = error_in(printed(tmp_path, FORGOT))
    assert error is not None
    assert explained(error, tmp_path, has_joined=False).message == (
        "train.py line 5: dist.all_gather_object([None], 1) needs a process group, and the process group was never "
        "initialised: call torch.distributed.init_process_group() before it."
    )
    assert "was destroyed before" in (explained(error, tmp_path, has_joined=True).message or "")
    assert explained(error, tmp_path / "elsewhere", has_joined=False) == error


def test_any_other_error_stays_as_it_is(tmp_path: Path) -> None:
    error = RankError(type="ValueError", message="no data", traceback=f'  File "{tmp_path}/train.py", line 1\n')
    assert explained(error, tmp_path, has_joined=False) == error


@pytest.mark.parametrize(("code", "type"), [(1, "KeyError"), (3, None)], ids=["uncaught", "its own code"])
def test_a_traceback_that_a_cold_rank_only_logged_is_not_what_ended_it(
    tmp_path: Path, code: int, type: str | None
) -> None:
    """Python ends with 1 by an exception; a script that chose another code has caught what it printed."""
    folder = AttemptFolder(tmp_path / "a")
    folder.create(Order(attempt="a", run="r", fence=1))
    text = 'Traceback (most recent call last):\n  File "train.py", line 1\nKeyError: 1\n'
    folder.stream_path(0, "stderr").write_text(text)
    rank = RankState(rank=0, pid=1, started_at=0.0)
    rank.end(Exit(code, None), 1.0, folder, is_cold=True)
    assert (rank.error.type if rank.error else None) == type


DRIVERS = """Traceback (most recent call last):
  File "train.py", line 18, in <module>
py4j.protocol.Py4JJavaError: An error occurred while calling o55.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Stage failed because barrier task ResultTask(0, 1)
Traceback (most recent call last):
  File "distributor.py", line 932, in _run_training_on_pytorch_function
RuntimeError: TorchDistributor failed during training.View stdout logs for detailed error message.
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""
OF_RANKS = """[rank1]: Traceback (most recent call last):
[rank0]: Traceback (most recent call last):
[rank1]:   File "train.py", line 8, in train
[rank0]:   File "train.py", line 9, in train
[rank0]: RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:36077.
[rank1]: ValueError: no such layer
"""
ALONE = 'Traceback (most recent call last):\n  File "train.py", line 8, in train\nValueError: no such layer\n'
OF_TORCHRUN = """E1127 16:41:56.006000 api.py:1002] failed (exitcode: 1) local_rank: 0 (pid: 15783) of binary: python3
Traceback (most recent call last):
  File "api.py", line 383, in launch_agent
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
  time      : 2026-11-27_16:41:56
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 15783)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
"""
KILLED = OF_TORCHRUN.replace("exitcode  : 1 (pid: 15783)", "exitcode  : -9 (pid: 15783)  (SIGKILL)").replace(
    "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
    "Signal 9 (SIGKILL) received by PID 15783",
)
LOST = (
    DRIVERS
    + "ExecutorLostFailure (executor 1 exited caused by one of the tasks) Reason: Command exited with code 137\n"
)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (OF_RANKS + OF_TORCHRUN + DRIVERS, "ValueError", "no such layer (rank 1 of TorchDistributor)"),
        (OF_RANKS + KILLED + DRIVERS, "ChildFailedError", "rank 0 of TorchDistributor: Signal 9 (SIGKILL) received by"),
        (ALONE + OF_TORCHRUN + DRIVERS, "ValueError", "no such layer (TorchDistributor)"),
        (LOST, "RuntimeError", "ExecutorLostFailure (executor 1 exited"),
    ],
)
def test_what_ended_a_process_of_torch_distributor_is_found(text: str, kind: str, message: str) -> None:
    found = ending_in(text)
    assert found is not None
    assert found.type == kind and str(found.message).startswith(message)


def test_where_no_process_says_why_the_drivers_own_error_stands() -> None:
    for text in (OF_RANKS + DRIVERS.replace("TorchDistributor failed", "It failed"), OF_TORCHRUN + DRIVERS):
        assert ending_in(text) == error_in(text)


COPIED = """\x1b[36m(TrainController pid=211)\x1b[0m Traceback (most recent call last):
\x1b[36m(TrainController pid=211)\x1b[0m   File "worker.py", line 1055, in get_objects
\x1b[36m(TrainController pid=211)\x1b[0m ray.exceptions.ActorDiedError: The actor died unexpectedly before it was.
(RayTrainWorker pid=320, ip=10.0.0.2) RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer
\x1b[36m(raylet)\x1b[0m Traceback (most recent call last):
\x1b[36m(RayTrainWorker pid=320)\x1b[0m      ^^^^^\x1b[32m [repeated 2x across cluster] (Ray deduplicates logs)\x1b[0m
"""
OF_RAY = """Traceback (most recent call last):
  File "train.py", line 221, in with_ray
    trainer.fit()
ray.train.WorkerGroupError: Training failed due to worker errors:
"""
KILLED_WORKER = """[Rank 0 Error Snippet]:
A worker health check failed.
Worker info: Worker(
  actor=Actor(RayTrainWorker, 11fcee1b41b67487467f1d6201000000),
)
The actor died unexpectedly before finishing this task.
\tclass_name: RayTrainWorker
The actor is dead because its worker process has died. (1) the process was killed by the OOM killer
"""
LEFT_WORKER = """[Rank 1 Error Snippet]:
Traceback (most recent call last):
  File "train.py", line 216, in <lambda>
  File "/home/node...
... (Output truncated. See individual worker logs for full details) ...
per
    work.wait()
RuntimeError: [gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:53437: Connection reset by peer

"""
RAISED = """[Rank 2 Error Snippet]:
Traceback (most recent call last):
  File "train.py", line 7, in f
ValueError: no such layer

"""
CRASHED = OF_RAY.replace(
    "ray.train.WorkerGroupError: Training failed due to worker errors:",
    "ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task.",
)
TASKS = OF_RAY.replace(
    "ray.train.WorkerGroupError: Training failed due to worker errors:",
    "ray.exceptions.RayTaskError(ValueError): \x1b[36mray::f()\x1b[39m (pid=7)\n  File\nValueError: no such layer",
)


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        (OF_RAY + KILLED_WORKER, "killed", "lost a process of Ray (The actor died unexpectedly before finishing this"),
        (OF_RAY + LEFT_WORKER + KILLED_WORKER, "killed", "lost a process of Ray (The actor died unexpectedly"),
        (CRASHED, "killed", "lost a process of Ray (The worker died unexpectedly"),
        (OF_RAY + LEFT_WORKER + RAISED, "user-error", "failed with ValueError: no such layer (rank 2 of Ray Train)"),
        (OF_RAY + LEFT_WORKER, "network", "lost its connection to another rank (Read error [127.0.0.1]:53437"),
        (TASKS, "user-error", "failed with ValueError: no such layer"),
        ("Training failed\n", "killed", "lost a process of Ray (ray.exceptions.ActorDiedError: The actor died unex"),
    ],
)
def test_what_ended_a_driver_of_ray_is_found_between_the_lines_of_its_other_processes(
    tmp_path: Path, text: str, kind: str, sentence: str
) -> None:
    folder, order = AttemptFolder(tmp_path / "a"), Order(attempt="a", run="r", fence=1, node_name="b")
    folder.create(order)
    folder.stream_path(0, "stderr").write_text(COPIED + text + COPIED)
    rank = RankState(rank=0, pid=1, started_at=0.0)
    rank.end(Exit(1, None), 1.0, folder, is_cold=True)
    reason = reason_of(order, [rank], None, folder)
    assert reason is not None and reason.evidence is not None
    failure = explain_rank(rank, "b", stderr=reason.evidence["stderr"])
    assert failure.cause_class == kind and failure.sentence.startswith(f"Rank 0 on b {sentence}"), failure
    assert "\\x1b" not in repr(reason) and reason.sentence == failure.sentence
