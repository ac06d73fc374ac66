"""A company's server from the wheel alone, as docs/deploy.md says: another user's processes with Debian's PostgreSQL,
Redis and nginx. All of it is started again, upgraded, taken back and restored elsewhere while a run logs."""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import httpx
import pytest

from dashboard.up.parent_death import tethered
from tests.browser.conftest import packed
from tests.dashboard.postgres_home import new_database
from tests.servers import PostgreSQL, Valkey, dies_with_us, free_port, short_folder, start_postgresql
from tests.up_process import ROOT, Up, wait_until
from tests.whole.runs import Yard, points
from tests.whole.test_behind_a_proxy import NGINX, PATH
from tests.whole.test_upgrade import Load, TwoWebs, is_live
from tests.whole.test_wheel import plain_environment, source_in, wheel_of
from trainyard.rest.client import Client

DEPLOY = ROOT / "docs" / "deploy"
PYTHON = f"/usr/bin/python3.{sys.version_info.minor}"
NEEDED = {"nginx": "nginx-light", "redis-server": "redis-server", "useradd": "passwd", PYTHON: "python3-venv"}
RUNUSER = str(shutil.which("runuser", path=PATH))
MISSING = sorted({package for name, package in NEEDED.items() if shutil.which(name, path=PATH) is None})
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="another user owns the server, whom root makes"),
    pytest.mark.skipif(bool(MISSING), reason=f"not on this machine (Debian: apt-get install {' '.join(MISSING)})"),
    pytest.mark.slow,
    pytest.mark.extended,
    pytest.mark.postgres,
    pytest.mark.timeout(900),
]
# It logs until a file is there, and keeps how many points it has logged.
SCRIPT = """
import os, pathlib, time, trainyard
run, step = trainyard.init(), 0
while not pathlib.Path({end!r}).exists() and step < 6000:
    run.log({{"train/loss": step / 2}}, step=step)
    step += 1
    time.sleep(0.1)
pathlib.Path(os.environ["TRAINYARD_OUTPUT"], "count").write_text(str(step))
run.finish()
"""
LATER = """
from django.db import migrations

class Migration(migrations.Migration):
    dependencies = (("runs", {newest!r}),)
    operations = (migrations.RunSQL("CREATE TABLE runs_later (number integer)", "DROP TABLE runs_later"),)
"""


def install(folder: Path, *words: str) -> None:
    """Have pip do it in the environment of that folder, which is made where it is not there."""
    if not folder.exists():
        subprocess.run([PYTHON, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    command = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet", *words]
    subprocess.run(command, check=True, timeout=300)


def install_beside(folder: Path, wheel: Path) -> None:
    """Install only Trainyard itself there: what it needs is what the first server has."""
    install(folder, "--no-deps", str(wheel))
    [packages] = folder.parent.glob("server-0.1.0/lib/python*/site-packages")
    [own] = folder.glob("lib/python*/site-packages")
    (own / "others.pth").write_text(f"{packages}\n")


def lead_to(folder: Path, version: str) -> None:
    """As `ln -sfn` does."""
    (folder / "server").unlink(missing_ok=True)
    (folder / "server").symlink_to(version)


class Redis(Valkey):
    """Debian's Redis with a password, on a port of the loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.password = folder, free_port(), secrets.token_hex(16)
        self.process = None
        folder.mkdir(mode=0o700)
        lines = (f"port {self.port}", "bind 127.0.0.1", f"requirepass {self.password}", "appendonly yes", 'save ""')
        (folder / "redis.conf").write_text("\n".join((*lines, f"dir {folder}", "")))

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def start(self) -> None:
        with (self.folder / "redis.log").open("ab") as log:
            words = [*dies_with_us(), "redis-server", str(self.folder / "redis.conf")]
            self.process = subprocess.Popen(words, stdout=log, stderr=log)


class Company(TwoWebs):
    """The four processes of another user, nginx in front, and a node of another home."""

    def __init__(self, folder: Path, database: PostgreSQL, owner: pwd.struct_passwd) -> None:
        self.proxy, self._program = "nginx", str(shutil.which("nginx", path=PATH))
        self.folder, self.owner, self.database, self.database_url = folder, owner, database, database.url
        self.home, self.redis = folder / "home", Redis(folder / "redis")
        self.port, self.ports = free_port(), [free_port(), free_port()]
        self.web_port, self.url, self.secret_key = self.ports[0], f"https://localhost:{self.port}", secrets.token_hex()
        self.others, self.processes = {}, []
        self.server = folder / "server" / "bin" / "trainyard"
        self.node = folder / "node" / "bin" / "trainyard"

    @property
    def environment(self) -> dict[str, str]:
        """server.env, filled in."""
        given = dict(re.findall(r"^([A-Z_]+)=(.*)$", (DEPLOY / "server.env").read_text(), re.MULTILINE))
        ours = {"TRAINYARD_HOME": str(self.home), "DATABASE_URL": self.database_url, "REDIS_URL": self.redis.url,
                "PUBLIC_URL": self.url, "SECRET_KEY": self.secret_key}  # fmt: skip
        assert ours.keys() < given.keys()
        return {"PATH": "/usr/local/bin:/usr/bin:/bin", **given, **ours}

    def start(self) -> None:
        self.make_home(self.home)
        self.redis.start()
        self._certify()
        assert "may sign in" in self.says("migrate")
        for name in ("control", "ingest", "web-0", "web-1"):
            self.begin(name)
        conf = self.folder / "nginx.conf"
        conf.write_text(NGINX.format(folder=self.folder, site=self.nginx_site()))
        self._begin([self._program, "-p", str(self.folder), "-c", str(conf)])
        self.wait_until_ready()

    def make_home(self, home: Path) -> None:
        home.mkdir(mode=0o700)
        os.chown(home, self.owner.pw_uid, self.owner.pw_gid)

    def says(self, *words: str, code: int = 0, **changes: str) -> str:
        """What a command says that the server's user gives."""
        command = [RUNUSER, "-u", self.owner.pw_name, "--", str(self.server), *words]
        done = subprocess.run(command, cwd=self.folder, env={**self.environment, **changes}, capture_output=True,
                              text=True, check=False, timeout=200)  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def begin(self, name: str, *words: str, port: int = 0) -> None:
        """Start what the unit starts."""
        process, _, number = name.partition("-")
        port = self.ports[int(number)] if number else 0
        [unit] = DEPLOY.glob(f"trainyard-{process}*.service")
        [start] = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
        command = start.replace("/opt/trainyard/bin/trainyard", str(self.server)).replace("%i", str(port)).split()
        with (self.folder / f"{name}.log").open("ab") as log:
            self.others[name] = subprocess.Popen(
                [*dies_with_us(), *command], cwd=self.home, stdout=log, stderr=log, env=self.environment,
                user=self.owner.pw_uid, group=self.owner.pw_gid, extra_groups=[], umask=0o077,
            )  # fmt: skip
        if port:
            wait_until(lambda: is_live(port), f"{name} answers")

    def again(self, name: str, number: int = signal.SIGTERM) -> None:
        process = self.others.pop(name)
        process.send_signal(number)
        process.wait(timeout=60)
        self.begin(name)

    def wait_until_ready(self) -> None:
        wait_until(self.is_ready, "the server is ready")

    def is_ready(self) -> bool:
        """Whether it is, once what has ended by itself was begun again, as systemd does."""
        for name, process in list(self.others.items()):
            if process.poll() is not None:
                self.begin(name)
        with suppress(httpx.TransportError), self.client() as client:
            return client.get("/api/v1/health").status_code == 200
        return False

    def log(self) -> str:
        return "\n".join(f"{one.name}: {one.read_text()[-2000:]}" for one in sorted(self.folder.glob("*.log")))

    @contextmanager
    def signed_in(self) -> Iterator[httpx.Client]:
        """A browser of somebody who came by a link, whom both webs know."""
        with self.client() as browser:
            browser.get(self.says("sign-in-link").strip())
            assert {browser.get("/").url.path for _ in range(6)} == {"/"}
            yield browser

    @contextmanager
    def yard(self, browser: httpx.Client) -> Iterator[Yard]:
        """REST with a token of the account's page."""
        found = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', browser.get("/account/").text)
        answer = browser.post("/account/tokens/", data={"name": "terminal", "csrfmiddlewaretoken": found[0]},
                              headers={"Referer": self.url})  # fmt: skip
        assert answer.status_code == 200, answer.text[:2000]
        token = re.findall(r"ty_[\w-]+", answer.text)[0]
        with Yard(cast(Up, SimpleNamespace(url=self.url, token=token, home=self.home))) as yard:
            yield yard

    def join(self, token: str, slots: int = 1) -> None:
        words = ["node", "--join", token, "--server", self.url, "--home", str(self.folder / "far"), "--name", "far"]
        changes = {"TRAINYARD_CA": str(self.folder / "ca.pem"), "TRAINYARD_MEMORY": str(self.folder)}
        with (self.folder / "node.log").open("ab") as log:
            self.processes.append(subprocess.Popen(
                tethered([str(self.node), *words, "--slots", str(slots)]), env=plain_environment(**changes), stdout=log,
                stderr=log, cwd=self.folder,
            ))  # fmt: skip


@contextmanager
def new_owner() -> Iterator[pwd.struct_passwd]:
    name = f"trainyard-{secrets.token_hex(4)}"
    subprocess.run(["useradd", "--system", "--home-dir", "/nonexistent", name], check=True, timeout=60)
    try:
        yield pwd.getpwnam(name)
    finally:
        subprocess.run(["userdel", name], check=True, timeout=60)


@contextmanager
def running_company(owner: pwd.struct_passwd) -> Iterator[Company | None]:
    """Yield it from a wheel of what is here now, or None on a machine without PostgreSQL's server."""
    with short_folder("ty-company-") as folder:
        folder.chmod(0o755)
        (folder / "postgresql").mkdir()
        database = start_postgresql(folder / "postgresql", is_durable=True)
        if database is None:
            yield None
            return
        one = Company(folder, database, owner)
        try:
            wheel = wheel_of(source_in(folder / "source"), folder)
            install(folder / "server-0.1.0", f"{wheel}[server]")
            lead_to(folder, "server-0.1.0")
            install_beside(folder / "node", wheel)
            with pytest.MonkeyPatch.context() as patch:
                for name in ("SSL_CERT_FILE", "TRAINYARD_CA"):  # for the test itself
                    patch.setenv(name, str(folder / "ca.pem"))
                one.start()
                yield one
        finally:
            print(one.log())  # shown where the test fails
            one.stop()
            database.stop()


@pytest.fixture
def company() -> Iterator[Company]:
    with new_owner() as owner, running_company(owner) as one:
        if one is None:
            pytest.skip("PostgreSQL's server is not on this machine (Debian: apt-get install postgresql)")
        yield one


class Pages:
    """Opens pages as a Client lists runs."""

    def __init__(self, browser: httpx.Client, run: str) -> None:
        self._browser, self._paths = browser, cycle(("/", f"/runs/{run}/", "/launch/", "/account/", "/people/"))

    def runs(self, **_: object) -> list[str]:
        return [self._browser.get(next(self._paths)).raise_for_status().text]


def test_nothing_is_lost_whatever_is_started_again(company: Company) -> None:
    with company.signed_in() as browser, company.yard(browser) as yard:
        try:
            run = launch(company, yard)
            start_all_again(company, yard, run)
            token = yard.http.headers["Authorization"].removeprefix("Bearer ")
            with Client(company.url, token) as client, asked(client, cast(Client, Pages(browser, run))):
                upgrade_and_back(company, yard, run)
            (company.folder / "end").touch()
            found = ended(yard, run)
        finally:
            yard.stop_what_is_left()
    restored_elsewhere(company, run, found)


@contextmanager
def asked(client: Client, pages: Client) -> Iterator[None]:
    """Meanwhile runs are listed, tokens made and pages opened, and no answer fails."""
    loads = [Load(client, writes=False), Load(client, writes=True), Load(pages, writes=False)]
    for one in loads:
        one.start()
    try:
        yield
    finally:
        for one in loads:
            one.is_over.set()
        for one in loads:
            one.join()
    print(f"\nupgrade and back: {[len(one.seconds) for one in loads]} answers, longest "
          f"{[round(max(one.seconds), 2) for one in loads]} s")  # fmt: skip
    assert [one.failed for one in loads] == [[], [], []]


def launch(company: Company, yard: Yard) -> str:
    cluster = yard.get("/clusters")["items"][0]
    company.join(yard.post(f"/clusters/{cluster['id']}/join-tokens")["token"])
    wait_until(lambda: any(one["is_in_contact"] for one in yard.get("/nodes")["items"]), "the node is in contact")
    code = company.folder / "code"
    code.mkdir()
    (code / "train.py").write_text(SCRIPT.format(end=str(company.folder / "end")))
    stored = yard.http.post("/bundles", content=packed(code))
    assert stored.status_code == 201, stored.text
    task = {"script": "train.py", "code": {"sha256": stored.json()["sha256"]}}
    run = yard.submit({"name": "company", "resources": {"nodes": 1}, "task": task})
    yard.wait_for_step(run, 20)
    return run


def goes_on(company: Company, yard: Yard, run: str) -> None:
    """Wait until the server is ready and has points that were logged since."""
    company.wait_until_ready()
    yard.wait_for_step(run, (yard.run(run)["step"] or 0) + 10)


def start_all_again(company: Company, yard: Yard, run: str) -> None:
    for name, number in (
        ("control", signal.SIGKILL), ("ingest", signal.SIGTERM), ("web-0", signal.SIGTERM), ("web-1", signal.SIGKILL),
        ("control", signal.SIGTERM), ("ingest", signal.SIGKILL),
    ):  # fmt: skip
        company.again(name, number)
        goes_on(company, yard, run)
    for stop in (company.redis.stop, company.redis.kill):
        stop()
        company.redis.start()
        goes_on(company, yard, run)
    for stop in (company.database.stop, company.database.kill):
        stop()
        company.database.start_again()
        goes_on(company, yard, run)


def upgrade_and_back(company: Company, yard: Yard, run: str) -> None:
    """A later version with one more table, and back to this one."""
    install_beside(company.folder / "server-0.2.0", later_wheel(company.folder))
    for version in ("server-0.2.0", "server-0.1.0"):
        lead_to(company.folder, version)
        if version == "server-0.2.0":
            assert company.says("migrate").startswith("1 migrations were applied")
        for name in ("control", "ingest", "web-0", "web-1"):
            company.again(name)
        goes_on(company, yard, run)


def later_wheel(folder: Path) -> Path:
    """Make it of the source there, with one more migration and other styles and scripts."""
    for name in ("css/tokens.css", "js/app.js"):
        with (folder / "source" / "static" / name).open("a") as file:
            file.write("\n/* later */\n")
    newest = max((folder / "source" / "runs" / "migrations").glob("0*.py")).stem
    later = f"{int(newest[:4]) + 1:04}_later"
    (folder / "source" / "runs" / "migrations" / f"{later}.py").write_text(LATER.format(newest=newest))
    for name in ("pyproject.toml", "trainyard/__init__.py"):
        file = folder / "source" / name
        file.write_text(file.read_text().replace('version = "0.1.0"', 'version = "0.2.0"')
                        .replace('__version__ = "0.1.0"', '__version__ = "0.2.0"'))  # fmt: skip
    return wheel_of(folder / "source", folder / "later")


def ended(yard: Yard, run: str) -> dict[int, float]:
    """The run's points, once it has ended as if nothing had been."""
    document = yard.wait_for_end(run)
    assert document["status"] == "SUCCEEDED", document["reason"]
    assert len(yard.attempts(run)) == 1
    codes = [one["code"] for one in yard.get(f"/runs/{run}/events")["items"]]
    assert codes == ["submitted", "placed", "starting", "running", "finished"]
    count = int(yard.file(run, "count"))
    found = points(yard, run, "train/loss")
    assert found == {step: step / 2 for step in range(count)}
    return found


def restored_elsewhere(company: Company, run: str, found: dict[int, float]) -> None:
    backups = company.folder / "backups"
    company.make_home(backups)
    company.says("backup", str(backups))
    [archive] = backups.iterdir()
    assert "is whole" in company.says("restore", "--check", str(archive))
    for name in list(company.others):
        company.end(name)
    company.home, company.database_url = company.folder / "new", new_database(company.database, "trainyard_new")
    company.make_home(company.home)
    assert "Restored to" in company.says("restore", str(archive), "--without-erasures")
    company.begin("web-0")
    with company.signed_in() as browser, company.yard(browser) as yard:
        assert points(yard, run, "train/loss") == found
        assert int(yard.file(run, "count")) == len(found)
