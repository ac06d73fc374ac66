"""What every test stands on: a home of its own, real servers, and both databases.

Each pytest process (each xdist worker, too) has its own TRAINYARD_HOME in a temporary folder, set before Django's
settings are read. The database is SQLite in real files; with TRAINYARD_TEST_DATABASE=postgresql it is a PostgreSQL
that the first process starts for all. `make test` runs on SQLite, `make test-database` runs `tests/runs` on PostgreSQL.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

at_end = ExitStack()


def take_over_environment() -> None:
    """Let nothing of the developer's own Trainyard reach the tests."""
    for name in ("TRAINYARD_URL", "TRAINYARD_TOKEN", "TRAINYARD_LIFELINE", "REDIS_URL", "SECRET_KEY", "HOST", "PORT",
                 "NODES", "ONCE", "ALLOWED_HOSTS", "PUBLIC_URL", "LOG_FORMAT", "INGEST_SHARDS"):  # fmt: skip
        os.environ.pop(name, None)
    folder = at_end.enter_context(tempfile.TemporaryDirectory(prefix="ty-", dir="/tmp", ignore_cleanup_errors=True))
    os.environ["TRAINYARD_HOME"] = str(Path(folder) / "home")
    os.environ["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"


def choose_database() -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:  # the first process has chosen
        return
    os.environ.pop("DATABASE_URL", None)
    if os.environ.get("TRAINYARD_TEST_DATABASE") != "postgresql":
        return
    from tests.servers import short_folder, start_postgresql

    folder = at_end.enter_context(short_folder("ty-postgres-"))
    server = start_postgresql(folder)
    if server is None:
        pytest.exit("PostgreSQL's server programs are not on this machine: nothing was tested on it.", returncode=0)
    at_end.callback(server.stop)
    os.environ["DATABASE_URL"] = server.url


take_over_environment()
choose_database()

import django  # noqa: E402
from django.conf import settings  # noqa: E402  # read here for the first time, from the environment above

# Pages are drawn with plain names; the tests of `up` and of the browser have everything collected, as in service.
settings.STORAGES["staticfiles"]["BACKEND"] = "django.contrib.staticfiles.storage.StaticFilesStorage"
Path(settings.STATIC_ROOT).mkdir(parents=True)
if "metrics" in settings.DATABASES:  # its tables by their models: with all migrations of the product it takes seconds
    settings.DATABASES["metrics"]["TEST"]["MIGRATE"] = False
django.setup()

from django.contrib.contenttypes.models import ContentType  # noqa: E402
from django.core.cache import cache  # noqa: E402
from django.db import connection  # noqa: E402
from django.db.models.signals import post_migrate  # noqa: E402
from playwright.sync_api import Browser, sync_playwright  # noqa: E402

import dashboard.http.signed_in  # noqa: E402, F401  # it records sign-ins by a signal: a server has it before the first one
from runs.models import Run  # noqa: E402
from runs.rights.audit import recording  # noqa: E402
from runs.serving.password_hashing import Hasher  # noqa: E402
from tests import cast as cast_module  # noqa: E402
from tests import migrated  # noqa: E402
from tests.cast import Cast, make_cast  # noqa: E402
from tests.machine import find_chromium  # noqa: E402
from tests.parts import SHARING  # noqa: E402
from tests.servers import Valkey, short_folder  # noqa: E402
from tests.up_process import ROOT, Up, new_home  # noqa: E402
from tests.whole.runs import Yard  # noqa: E402

Hasher.iterations = 1_000  # what a password's hash costs is a promise of tests/runs/serving/test_password_hashing alone


def pytest_unconfigure() -> None:
    at_end.close()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Workers inherit this process's environment, and would begin in its home: each makes its own."""
    for name in ("TRAINYARD_HOME", "DJANGO_SETTINGS_MODULE"):
        os.environ.pop(name, None)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what shares the one running Trainyard, or the browser: `make test` runs it beside the rest. A test with a
    database has both, the product's and the metrics', and is marked even where a fixture alone asks for it: so `-m
    django_db` finds all of them."""
    fixtures = set(getattr(item, "fixturenames", ()))
    if {"running_trainyard", "browser"} & fixtures:
        item.add_marker(pytest.mark.whole)
        if "browser" in fixtures:
            item.add_marker(pytest.mark.browser)
        refuse_where_no_part_looks(item)
    marker = item.get_closest_marker("django_db")
    if marker is None and not {"db", "transactional_db"} & fixtures:
        return
    wanted = {"databases": "__all__", **(marker.kwargs if marker else {})}
    if marker is None and "transactional_db" in fixtures:
        wanted["transaction"] = True
    item.add_marker(pytest.mark.django_db(**wanted), append=False)


def refuse_where_no_part_looks(item: pytest.Item) -> None:
    """A test that shares the running Trainyard, or the browser, and lies where `make test` does not look for such."""
    folders = (*SHARING, "tests/browser", "tests/runs", "tests/workers", "tests/security", "tests/systems")  # by `make`
    if not any((ROOT / folder) in item.path.parents for folder in folders):
        raise pytest.UsageError(f"{item.nodeid} shares a Trainyard or the browser: it belongs in {', '.join(SHARING)}.")


@pytest.hookimpl(trylast=True)  # after they were shuffled
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with a browser come last: while Playwright runs, its thread has a running event loop, which neither
    Django's database nor asynchronous tests can stand."""
    items.sort(key=lambda item: "browser" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Whether the tables are there already: on SQLite they are copied, in a home that goes with this process."""
    default = settings.DATABASES["default"]
    if "sqlite" not in default["ENGINE"]:
        return False
    migrated.copy("trainyard.sqlite3", default["TEST"]["NAME"])
    return True


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> None:
    """The databases. A test that commits leaves them emptied, and Django would write its permissions of all models
    anew each time, which takes longer than most of these tests. Nothing here asks for them: access is by membership."""
    post_migrate.receivers = []
    post_migrate.sender_receivers_cache.clear()
    allow_flush()


def allow_flush() -> None:
    """Let the end of a test that commits empty the audit, which triggers keep whole: on SQLite its head goes first, on
    PostgreSQL no trigger is asked. Rows are deleted there too: to truncate all tables takes it ten times as long."""
    operations = connection.ops
    begin = ["SET LOCAL session_replication_role = replica"] if connection.vendor == "postgresql" else []

    def sql_flush(style: Any, tables: Sequence[str], **options: Any) -> list[str]:
        ordered = sorted(tables, key=lambda table: table != "runs_audithead")
        return [*begin, *(f"DELETE FROM {operations.quote_name(table)}" for table in ordered)]

    operations.sql_flush = sql_flush  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def empty_cache() -> None:
    """Rows that are rolled back give their keys to the next test's, which must not find what was kept of them; nor are
    its refused tries those of a minute in which others had theirs."""
    cache.clear()
    recording.refusals = recording.Refusals()
    ContentType.objects.clear_cache()
    Path(settings.AUDIT_HEAD_FILE).unlink(missing_ok=True)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A temporary folder that every user of the machine may read, as data for ranks must lie in one."""
    with short_folder("ty-open-") as folder:
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Valkey]:
    """The server of this pytest process, where settings.REDIS_URL looks for it."""
    server = Valkey(Path(settings.REDIS_URL.removeprefix("unix://")).parent)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def valkey(valkey_server: Valkey) -> Iterator[Valkey]:
    """A running, empty Valkey, without the users that other tests have made."""
    import redis

    if valkey_server.process is None or valkey_server.process.poll() is not None:
        valkey_server.start()
    with redis.Redis.from_url(valkey_server.url) as client:
        client.flushall()
        if others := [name for name in client.acl_users() if name not in ("default", b"default")]:
            client.acl_deluser(*others)
    yield valkey_server


@pytest.fixture
def cast(db: None) -> Cast:
    """Owner, team mate, viewer and outsider with one project and one cluster (without nodes)."""
    return make_cast()


@pytest.fixture
def make_run(cast: Cast) -> Callable[..., Run]:
    """``make_run(**changes)``: a run of the mate's, QUEUED unless told otherwise."""
    return partial(cast_module.make_run, cast)


@pytest.fixture(scope="session")
def running_trainyard() -> Iterator[Up]:
    """A whole Trainyard with two nodes, as `make up` starts it; one for all the tests of this process.

    It has ``url``, ``token`` and ``home``.
    """
    with short_folder("ty-up-") as folder:
        up = Up(new_home(folder), NODES="2")
        try:
            up.wait_until_said("Nodes in contact")
            yield up
        finally:
            up.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The one Chromium of all tests."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def yard(running_trainyard: Up) -> Iterator[Yard]:
    """The running Trainyard, through its REST API."""
    with Yard(running_trainyard) as one:
        yield one
        one.stop_what_is_left()
