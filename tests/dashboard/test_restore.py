"""A backup that is restored elsewhere brings nobody back who was erased after it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from dashboard import restore
from dashboard.home import RESTORE_MARKER
from dashboard.up.checks import CannotStart, refuse_unfinished_restore
from tests.disks import disk_of_1_mb

ROOT = Path(__file__).resolve().parents[2]
MAKE = """
import sys
from pathlib import Path
from dashboard.backup import back_up
from dashboard.home import home_path
from dashboard.up.database import open_database, set_up_django
set_up_django(); open_database()
from django.core.management import call_command
from runs.actions import first_start
from runs.models import User
first_start()
User.objects.create(username="mate", email="m@example.com")
back_up(home_path(), Path(sys.argv[1]))
call_command("person", "erase", "mate", "--yes")
"""
NAMES = """
from dashboard.up.database import set_up_django
set_up_django()
from django.core.management import call_command
from runs.models import User
print(sorted(User.objects.values_list("username", flat=True)))
call_command("audit", "verify")
"""


def make_backup(folder: Path) -> Path:
    path = folder / "all.tar"
    (folder / "secret_key").write_text("key")
    with tarfile.open(path, "w") as archive:
        archive.add(folder / "secret_key", arcname="secret_key")
    return path


def test_a_home_that_came_from_a_backup_is_not_served_before_the_list_was_applied(tmp_path: Path) -> None:
    home = tmp_path / "home"
    restore.unpack(make_backup(tmp_path), home)
    assert (home / "secret_key").read_text() == "key"
    with pytest.raises(CannotStart, match="erased since then would be back"):
        refuse_unfinished_restore(home)
    (home / RESTORE_MARKER).unlink()
    refuse_unfinished_restore(home)


def test_a_file_with_two_names_has_both(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("weights")
    (tmp_path / "one").chmod(0o750)
    (tmp_path / "other").hardlink_to(tmp_path / "one")
    with tarfile.open(tmp_path / "all.tar", "w") as archive:
        for name in ("one", "other"):
            archive.add(tmp_path / name, arcname=f"runs/{name}")
    restore.unpack(tmp_path / "all.tar", tmp_path / "home")
    one, other = (tmp_path / "home" / "runs" / name for name in ("one", "other"))
    assert one.read_text() == "weights" and one.samefile(other)
    assert (one.stat().st_mode, int(one.stat().st_mtime)) == (0o100750, int((tmp_path / "one").stat().st_mtime))


@pytest.mark.parametrize(
    ("name", "kind", "target"),
    [("../out", tarfile.REGTYPE, ""), ("/tmp/out", tarfile.REGTYPE, ""), ("runs/../../out", tarfile.REGTYPE, ""),
     ("in", tarfile.SYMTYPE, "/etc"), ("in", tarfile.LNKTYPE, "/etc/passwd"), ("in", tarfile.LNKTYPE, "../out"),
     ("in", tarfile.FIFOTYPE, ""), ("in", tarfile.CHRTYPE, "")],
)  # fmt: skip
def test_what_is_no_file_of_a_home_is_refused(tmp_path: Path, name: str, kind: bytes, target: str) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    with tarfile.open(tmp_path / "all.tar", "w") as archive:
        archive.addfile(member)
    with pytest.raises(CannotStart, match="which is no file of a home"):
        restore.unpack(tmp_path / "all.tar", tmp_path / "home")
    assert list((tmp_path / "home").iterdir()) == [] and not (tmp_path / "out").exists()


@pytest.mark.extended
def test_a_disk_that_is_full_is_said_with_what_to_do(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2_000_000)
    with tarfile.open(tmp_path / "all.tar", "w") as archive:
        archive.add(tmp_path / "large", arcname="runs/large")
    words = rf"No space left on device\. Empty {tmp_path}/small/home before you try again\."
    with disk_of_1_mb(tmp_path / "small") as small, pytest.raises(CannotStart, match=words):
        restore.unpack(tmp_path / "all.tar", small / "home")


def test_only_an_empty_folder_is_filled(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="is not empty"):
        restore.unpack(make_backup(tmp_path), tmp_path)


def test_the_lists_of_both_are_one(tmp_path: Path) -> None:
    newer, own = tmp_path / "newer", tmp_path / "own"
    newer.write_text("b\nc\n")
    own.write_text("a\nb\n")
    restore.add_list(newer, own)
    assert own.read_text() == "a\nb\nc\n"


@pytest.mark.extended
def test_an_attack_with_an_old_backup_brings_nobody_back(tmp_path: Path) -> None:
    old, new, backup, erasures = tmp_path / "old", tmp_path / "new", tmp_path / "all.tar", tmp_path / "erasures.jsonl"

    def run(home: Path, *words: str) -> str:
        environment = {"PATH": os.environ["PATH"], "TRAINYARD_HOME": str(home)}
        done = subprocess.run(
            [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        return f"{done.returncode} {done.stdout}{done.stderr}"

    old.mkdir(mode=0o700)
    answer = run(old, "-c", MAKE, str(backup))
    assert "Erased: erased person 2." in answer, answer
    erasures.write_text((old / "erasures.jsonl").read_text())
    assert "mate" not in erasures.read_text() and json.loads(erasures.read_text())["number"] == 2
    answer = run(new, "-m", "dashboard.restore", str(backup), "--erasures", str(erasures))
    assert answer.startswith("0") and "1 erased person was in it" in answer, answer
    answer = run(new, "-c", NAMES)
    assert answer.startswith("0 ['owner']") and "intact" in answer, answer
