"""The locks pin every package by hash, for any index, and leave torch to the machine."""

import importlib.metadata
import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


EXTRAS = PROJECT["project"]["optional-dependencies"]
APART = ("train", "ray", "kubernetes", "s3", "sagemaker", "saml")  # what a machine chooses by itself
WANTED = [*PROJECT["project"]["dependencies"], *(one for name in EXTRAS if name not in APART for one in EXTRAS[name])]
WANTED = [text for text in WANTED if not text.startswith("trainyard[")]  # an extra that holds another


def pinned(name: str) -> dict[str, set[str]]:
    """Versions by package name, as the lock pins them."""
    found: dict[str, set[str]] = {}
    for package, version in re.findall(r"^([a-z0-9._-]+)==([^ \\]+)", (ROOT / "requirements" / name).read_text(), re.M):
        found.setdefault(package, set()).add(version)
    return found


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_entry_has_a_hash(lock: Path) -> None:
    entries = [entry for entry in re.split(r"\n(?=\S)", lock.read_text()) if entry.strip() and entry[0] != "#"]
    assert entries
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("lock", [*LOCKS, ROOT / ".npmrc"], ids=lambda path: path.name)
def test_no_lock_names_an_address(lock: Path) -> None:
    assert "://" not in lock.read_text()


def test_the_npm_lock_names_no_registry() -> None:
    packages = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    assert [name for name, package in packages.items() if "resolved" in package] == []
    assert [name for name, package in packages.items() if name and "integrity" not in package] == []


def test_npm_packages_are_pinned_to_one_version() -> None:
    wanted = json.loads((ROOT / "package.json").read_text())["dependencies"]
    assert [name for name, version in wanted.items() if not re.fullmatch(r"\d+\.\d+\.\d+", version)] == []


def test_what_the_project_asks_for_is_what_is_locked() -> None:
    versions = pinned("runtime.lock")
    for text in [*WANTED, *PROJECT["dependency-groups"]["torch-needs"]]:
        requirement = Requirement(text)
        assert any(requirement.specifier.contains(version) for version in versions.get(plain(requirement.name), ())), (
            f"{text}: run `make lock`"
        )


def test_development_adds_to_the_runtime_and_changes_nothing() -> None:
    development = pinned("dev.lock")
    assert {
        name: versions for name, versions in pinned("runtime.lock").items() if development.get(name) != versions
    } == {}


def test_torch_is_not_locked_and_what_it_needs_is() -> None:
    versions = pinned("runtime.lock")
    assert "torch" not in versions
    needs = [Requirement(text) for text in importlib.metadata.requires("torch") or []]
    needs = [need for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    # The CUDA build's own libraries come with it.
    pure = [need for need in needs if not need.name.startswith(("nvidia", "cuda", "triton"))]
    missing = [need.name for need in pure if plain(need.name) not in versions]
    assert missing == []


def test_every_dependency_is_explained() -> None:
    text = (ROOT / "docs/decisions/dependencies.md").read_text().lower()
    groups = [WANTED, *PROJECT["dependency-groups"].values()]
    names = [plain(Requirement(entry).name) for group in groups for entry in group]
    names += [name.rpartition("/")[2] for name in json.loads((ROOT / "package.json").read_text())["dependencies"]]
    # pytest's plugins stand in one line as -django, -asyncio and so on.
    short = [name.removeprefix("pytest") if name != "pytest" else name for name in names]
    assert [name for name in short if name not in text] == []
