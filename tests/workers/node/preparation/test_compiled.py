"""What torch compiles for scripts on a node, when a rank was killed as it compiled."""

from __future__ import annotations

from pathlib import Path

from tests.workers.control import ControlledNode
from trainyard.contract.base import JsonObject
from workers.node.preparation.orders import FOLDER, remove_locks
from workers.transport.node_config import project_cache

WAITS = "import time\nprint('at work', flush=True)\ntime.sleep(600)\n"


def lock_in(cache: Path) -> Path:
    lock = cache / FOLDER / "py311_cpu" / "cpu_adam" / "lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    return lock


def test_a_lock_goes_and_what_was_compiled_stays(tmp_path: Path) -> None:
    lock = lock_in(tmp_path)
    (lock.parent / "cpu_adam.so").touch()
    (tmp_path / "user" / "lock").touch()
    remove_locks(tmp_path)
    assert [path.name for path in lock.parent.iterdir()] == ["cpu_adam.so"]
    assert (tmp_path / "user" / "lock").exists(), "that is no lock of torch's"


def test_nothing_is_removed_behind_a_link(tmp_path: Path) -> None:
    other = lock_in(tmp_path / "other")
    (tmp_path / "cache" / FOLDER).mkdir(parents=True)
    (tmp_path / "cache" / FOLDER / "py311_cpu").symlink_to(other.parent.parent)
    remove_locks(tmp_path / "cache")
    assert other.exists()


def test_a_project_without_a_cache_has_no_locks(tmp_path: Path) -> None:
    remove_locks(tmp_path / "none")


def test_a_lock_stays_while_another_run_of_the_project_is_at_work(calm_node: ControlledNode) -> None:
    def order(script: str, project: str = "compilers") -> JsonObject:
        return calm_node.order(script, spec={"project": project, "task": {"script": "train.py"}})

    first = order(WAITS)
    calm_node.launch(first)
    lock = lock_in(project_cache(calm_node.home, "compilers"))
    assert calm_node.run(order("print('short')"))["reason"] is None
    assert lock.exists()
    calm_node.say(first, wanted="stop", grace_s=1.0)
    calm_node.wait_for(first, "ended")
    assert calm_node.run(order("print('short')", "others"))["reason"] is None
    assert lock.exists(), "it is another project's"
    assert calm_node.run(order("print('short')"))["reason"] is None
    assert not lock.exists()
