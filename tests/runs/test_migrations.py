"""A new database has all tables at once, and one of the versions before goes on from where it is, or is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What `up` does, in an interpreter of its own, after the table of migrations was made that of an older version.
PROGRAM = """
import sys
from dashboard.up.checks import CannotStart
from dashboard.up.database import open_database, set_up_django
set_up_django()
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
print(open_database() > 0)
for alias, app in (("default", "runs"), ("metrics", "metrics")):
    (whole,) = (one for one in MigrationLoader(None).disk_migrations.values() if one.replaces and one.app_label == app)
    recorder = MigrationRecorder(connections[alias])
    recorder.record_unapplied(whole.app_label, whole.name)
    for name in whole.replaces:
        recorder.record_applied(*name)
    print(open_database())
    recorder.record_unapplied(*whole.replaces[-1])
    try:
        open_database()
    except CannotStart as error:
        print(error)
    recorder.record_applied(*whole.replaces[-1])
"""


@pytest.mark.timeout(120)
def test_a_database_of_the_version_before_is_up_to_date_and_an_older_one_is_refused(tmp_path: Path) -> None:
    environment = {**os.environ, "TRAINYARD_HOME": str(tmp_path)}
    environment.pop("DATABASE_URL", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    new, *found = done.stdout.splitlines()
    assert new == "True" and found[::2] == ["0", "0"]
    for older in found[1::2]:
        assert older.startswith("The database ") and "was made before 0.1.0" in older
