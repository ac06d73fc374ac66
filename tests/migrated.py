"""SQLite files with all migrations applied, kept for as long as the migrations stay as they are.

To apply them takes five seconds of processor time. Every process that tests with a database, and every Trainyard that
tests start, would apply them to an empty file; they take a copy instead. tests/dashboard/up/test_process.py starts one
without, and tests/runs/test_migrations.py compares what they make with the models.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".pytest_cache" / "migrated"
MADE_BY = ("django", "django-allauth")  # whose migrations are applied beside ours
FILES = ("trainyard.sqlite3", "metrics.sqlite3")  # as dashboard/databases.py names them in a home
APPLY = """
import os
from dashboard.up.database import open_database, set_up_django
set_up_django()
open_database(is_restored=True)
from django.db import connections
for connection in connections.all():
    connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
connections.close_all()
"""


def copy_into(home: Path) -> None:
    """Put both files into a home that has none yet."""
    for name in FILES:
        copy(name, home / name)


def copy(name: str, target: Path) -> None:
    """Put one of FILES to where there is none, for its owner only."""
    target.touch(mode=0o600)
    shutil.copyfile(files() / name, target)


def files() -> Path:
    """The folder with both files; they are made where they are not kept, by one process for all."""
    folder = CACHE / fingerprint()
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                make(folder)
    return folder


def make(folder: Path) -> None:
    for older in CACHE.glob("*-*"):
        shutil.rmtree(older, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as home:
        inherited = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "SECRET_KEY")}
        environment = {**inherited, "TRAINYARD_HOME": home, "DJANGO_SETTINGS_MODULE": "dashboard.settings"}
        subprocess.run([sys.executable, "-c", APPLY], cwd=ROOT, env=environment, check=True)
        made = Path(home, "made")
        made.mkdir()
        for name in FILES:
            shutil.move(Path(home, name), made / name)
        made.rename(folder)


def fingerprint() -> str:
    """What the files depend on, in short."""
    ours = hashlib.sha256()
    for path in [*sorted((ROOT / "runs" / "migrations").glob("*.py")), ROOT / "dashboard" / "databases.py"]:
        ours.update(path.name.encode() + path.read_bytes())
    return "-".join([*map(version, MADE_BY), ours.hexdigest()[:16]])
