"""What docs/deploy has for Prometheus and Grafana: rules that fire as they should, and expressions that a real
Prometheus answers from a real server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from dashboard.up.parent_death import tethered
from tests.servers import free_port, short_folder
from tests.up_process import ROOT, Up, wait_until

DEPLOY = ROOT / "docs" / "deploy"
PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
pytestmark = pytest.mark.skipif(
    PROMETHEUS is None or PROMTOOL is None,
    reason="prometheus is not on this machine (Debian: apt-get install prometheus)",
)
RULES = [rule for group in yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"] for rule in group["rules"]]
PANELS = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
EXPRESSIONS = [target["expr"].replace("$job", "trainyard") for panel in PANELS for target in panel["targets"]]
UNITS = Path(__file__).with_name("alerts_test.yml")


def promtool(*words: str | Path) -> str:
    done = subprocess.run([str(PROMTOOL), *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_alert_fires_and_not_before_its_time(tmp_path: Path) -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "rules", DEPLOY / "alerts.yml")
    shutil.copyfile(DEPLOY / "alerts.yml", tmp_path / "alerts.yml")
    shutil.copyfile(UNITS, tmp_path / UNITS.name)
    promtool("test", "rules", tmp_path / UNITS.name)
    tried: dict[str, set[bool]] = {}
    for unit in yaml.safe_load(UNITS.read_text())["tests"]:
        for one in unit["alert_rule_test"]:
            tried.setdefault(one["alertname"], set()).add(bool(one["exp_alerts"]))
    assert tried == {rule["alert"]: {True, False} for rule in RULES}, "each fires, and is silent before"


class Scraping:
    """A Prometheus with the documented configuration and rules, which scrapes ``up``."""

    def __init__(self, folder: Path, up: Up) -> None:
        self._port = free_port()
        (folder / "token").write_text(up.token)
        shutil.copyfile(DEPLOY / "alerts.yml", folder / "alerts.yml")
        text = (DEPLOY / "prometheus.yml").read_text()
        text = text.replace("scheme: https", "scheme: http").replace("trainyard.example.org", up.url.split("//")[1])
        text = text.replace("/etc/prometheus/trainyard.token", str(folder / "token")).replace("30s", "1s")
        (folder / "prometheus.yml").write_text(text)
        promtool("check", "config", folder / "prometheus.yml")
        words = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", "--log.level=error"]
        listens = f"--web.listen-address=127.0.0.1:{self._port}"
        self.process = subprocess.Popen(tethered([str(PROMETHEUS), *words, listens]), cwd=folder)

    def ask(self, path: str, **query: str) -> Any:
        answer = httpx.get(f"http://127.0.0.1:{self._port}/api/v1/{path}", params=query, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def result(self, expression: str) -> Any:
        return self.ask("query", query=expression)["result"]

    def has_scraped(self) -> bool:
        try:
            ready = httpx.get(f"http://127.0.0.1:{self._port}/-/ready").status_code == 200
            return ready and bool(self.result("rate(trainyard_requests_total[1m])"))  # rates need two scrapes
        except httpx.TransportError:
            return False


@pytest.fixture
def scraping(running_trainyard: Up) -> Iterator[Scraping]:
    with short_folder("ty-prometheus-") as folder:
        one = Scraping(folder, running_trainyard)
        try:
            wait_until(one.has_scraped, "Prometheus has scraped the server")
            yield one
        finally:
            one.process.terminate()
            one.process.wait(timeout=30)


def plain(name: str) -> str:
    """A number's name without what its kind ends the names of its series with."""
    return re.sub(r"_(total|bucket)$", "", name)


def test_every_expression_is_answered_from_what_a_server_says(scraping: Scraping) -> None:
    for expression in EXPRESSIONS:
        assert scraping.result(expression), f"{expression} has no result"
    known = {one["metric"] for one in scraping.ask("targets/metadata")}
    words = " ".join([*EXPRESSIONS, *(rule["expr"] for rule in RULES)])
    known, named = {plain(name) for name in known}, {plain(name) for name in re.findall(r"trainyard_[a-z_]+", words)}
    assert named <= known
    assert named == {name for name in known if name.startswith("trainyard_")}, "each number is looked at somewhere"
    for rule in RULES:
        scraping.result(rule["expr"])
    loaded = scraping.ask("rules")["groups"][0]["rules"]
    assert [(one["name"], one["health"] in ("ok", "unknown")) for one in loaded] == [(r["alert"], True) for r in RULES]
    states = {one["metric"]["state"] for one in scraping.result("trainyard_nodes")}
    assert states <= {"in contact", "away", "draining"}, "labels that rules go by"
