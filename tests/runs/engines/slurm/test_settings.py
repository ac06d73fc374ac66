from __future__ import annotations

from typing import Any

import pytest

from runs.engines.cluster_settings.settings import SettingsError
from runs.engines.slurm.engine import SlurmEngine


def problems(**changes: Any) -> dict[str, str]:
    with pytest.raises(SettingsError) as refused:
        SlurmEngine().checked({"folder": "/shared", **changes})
    return refused.value.problems


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("folder", "relative/path"),
        ("folder", "/two\nlines"),
        ("machines", 100_000),
        ("partition", "a,b"),
        ("partition", "main --wrap=id"),
        ("account", "-x"),
        ("qos", "high\n#SBATCH --uid=0"),
        ("gres", "gpu:a100:4"),
        ("memory", "lots"),
        ("time_limit", "soon"),
        ("time_limit", "10s"),
        ("notice", "x"),
        ("python", "python3"),
        ("server", "ftp://host"),
        ("slurm_conf", "slurm.conf"),
    ],
)
def test_what_is_wrong_is_named_with_its_value(field: str, value: object) -> None:
    found = problems(**{field: value})
    assert set(found) == {field}, found
    assert (field == "folder" and not value) or str(value)[:10].splitlines()[0] in found[field] or field in found[field]


@pytest.mark.parametrize(
    "line",
    ["wrap=id", "uid=0", "output=/etc/passwd", "export=ALL", "get-user-env", "job-name=x", "constraint", "constraint=",
     "constraint=a\nb", "constraint=a\0b", "exclude=-x", "--exclude=c1", "comment=mine", "chdir=/"],
)  # fmt: skip
def test_options_outside_the_list_are_refused(line: str) -> None:
    assert repr(line.partition("=")[0])[1:-1][:8] in problems(options=[line])["options"]


def test_options_of_the_list_are_kept() -> None:
    options = ["constraint=ib&fast", "exclude=c[1-3],c7", "nice=100", "mail-user=me@example.org", "exclusive"]
    assert SlurmEngine().checked({"folder": "/shared", "options": options})["options"] == options


def test_the_notice_leaves_time_to_train() -> None:
    assert "half" in problems(time_limit="2m", notice="90s")["notice"]


def test_settings_that_are_nested_too_deeply_are_refused_with_words() -> None:
    deep: list[Any] = []
    for _ in range(60):
        deep = [deep]
    assert problems(options=deep) == {"the document": "It is nested deeper than 50."}
