"""The promises that every engine of the table keeps. A new engine is tested by being in the table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runs.engines import ENGINES, allocating_engine
from runs.engines.allocating import AllocatingEngine
from runs.engines.cluster_settings.settings import SECRET, SettingField

DOCS = Path(__file__).resolve().parents[3] / "docs"
CLUSTERS = (DOCS / "clusters.md").read_text()
ROW = re.compile(r"^\| `(?P<names>[a-z_`, ]+)` \| (?P<defaults>[^|]+) \| [^|]+ \|$", re.MULTILINE)


@pytest.fixture(params=[name for name in ENGINES if allocating_engine(name)])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def engine(name: str) -> AllocatingEngine:
    engine = allocating_engine(name)
    assert engine is not None
    return engine


def page_of(name: str, engine: AllocatingEngine) -> str:
    """Return the engine's page, or its part of the page of all clusters: the table of engines says which."""
    (row,) = re.findall(rf"^\| `{name}` \|.*$", CLUSTERS, re.MULTILINE)
    if link := re.search(r"\]\((\w+\.md)\)", row):
        return (DOCS / link[1]).read_text()
    _, _, rest = CLUSTERS.partition(f" {engine.label} cluster\n")
    return rest.partition("\n## ")[0]


def default_of(field: SettingField, engine: AllocatingEngine) -> str:
    """Return a default as the docs write it; empty for one that they put into words."""
    value = "" if field.kind == SECRET else getattr(engine.settings_type(), field.name)
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str | int) and value != "":
        return f"`{value}`" if isinstance(value, str) else str(value)
    return "needed" if field.is_needed else ""


def test_the_docs_name_every_setting_with_its_default_and_no_other(name: str, engine: AllocatingEngine) -> None:
    documented: dict[str, str] = {}
    for row in ROW.finditer(page_of(name, engine)):
        names = row["names"].split("`, `")
        defaults = row["defaults"].split(", ")
        documented |= zip(
            names, defaults if len(defaults) == len(names) else [row["defaults"]] * len(names), strict=True
        )
    fields = {field.name: field for field in engine.settings_type.fields()}
    assert set(documented) == set(fields)
    exact = {one: default_of(field, engine) for one, field in fields.items()}
    wrong = {one: documented[one] for one, default in exact.items() if default and default not in documented[one]}
    assert not wrong
