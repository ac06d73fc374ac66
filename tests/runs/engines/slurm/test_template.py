"""Fields in a site's settings: filled in by each run, with plain words alone."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from runs.engines.cluster_settings.settings import SettingsError
from runs.engines.machine_system import MachineRequest, Origin
from runs.engines.refusals import SystemRefused
from runs.engines.slurm.engine import Programs, SlurmEngine, SlurmSystem
from runs.engines.slurm.script import script_of, submission
from runs.engines.slurm.settings import SlurmSettings
from runs.engines.slurm.template import BadField, filled

REQUEST = MachineRequest("abc123", "hello", 2, 3, ["join_one", "join_two"], project="vision", owner="ada@lab")
SETTINGS = SlurmSettings(
    folder="/shared", account="{project}", options=["wckey={owner}", "licenses=db:{nodes},x@{run}"]
)


def test_each_run_fills_in_its_own_words() -> None:
    words = submission(SETTINGS, REQUEST, "mark", "hpc")
    assert {"--account=vision", "--wckey=ada@lab", "--licenses=db:2,x@hello"} <= set(words)


@pytest.mark.parametrize("name", ["my run", "a,b", "a;b", "-x", "", "a\nb", "{owner}", "a=b", "ä", "x" * 61])
def test_what_is_no_plain_word_is_refused(name: str) -> None:
    with pytest.raises(BadField, match="and the run of this run is"):
        submission(SETTINGS, replace(REQUEST, name=name), "mark", "hpc")


def test_a_refused_word_is_the_sentence_of_the_run() -> None:
    system = SlurmSystem(SETTINGS, Origin("mark", "hpc", "http://server"), Programs())
    with pytest.raises(
        SystemRefused, match=r"Slurm was not asked\. .* the project of this run is 'my lab'.*cluster hpc"
    ):
        system.submit(replace(REQUEST, project="my lab"))


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"account": "{secret}"}, "account"),
        ({"options": ["wckey={project.name}"]}, "options"),
        ({"options": ["wckey={project"]}, "options"),
        ({"options": ["wckey={{project}}"]}, "options"),
        ({"options": ["{run}={project}"]}, "options"),
        ({"partition": "{project} x"}, "partition"),
        ({"modules": ["cuda; id"]}, "modules"),
        ({"modules": ["-x"]}, "modules"),
        ({"modules": ["$(id)"]}, "modules"),
    ],
)
def test_templates_outside_the_list_are_refused(settings: dict[str, object], field: str) -> None:
    with pytest.raises(SettingsError) as refused:
        SlurmEngine().checked({"folder": "/shared", **settings})
    assert set(refused.value.problems) == {field}


def test_templates_of_the_list_are_kept() -> None:
    kept = SlurmEngine().checked({"folder": "/shared", "account": "{project}", "modules": ["cuda/12.4", "gcc"]})
    assert (kept["account"], kept["modules"]) == ("{project}", ["cuda/12.4", "gcc"])
    assert filled("a-{nodes}-{slots}", {"nodes": "2", "slots": "3"}) == "a-2-3"


def test_modules_are_loaded_before_there_is_a_token(tmp_path: Path) -> None:
    """The script itself runs here, with a site's own `module` and a `srun` that shows what it got."""
    profile = f'module() {{ echo "$@ [$TRAINYARD_JOIN]" >> {tmp_path}/loaded; [ $2 != gone ]; }}\n'
    (tmp_path / ".bash_profile").write_text(f"{profile}export PATH={tmp_path}:/usr/bin:/bin\n")
    (tmp_path / "srun").write_text(f'#!/bin/sh\necho "$TRAINYARD_JOIN" > {tmp_path}/started\n')
    (tmp_path / "srun").chmod(0o755)
    for modules, is_started in ((["cuda/12.4", "gcc"], True), (["gone"], False)):
        (tmp_path / "started").unlink(missing_ok=True)
        script = script_of(SlurmSettings(folder="/shared", modules=modules), REQUEST, "http://server")
        assert script.startswith("#!/bin/bash -l\n")
        environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        subprocess.run(["/bin/bash", "-l"], input=script, text=True, env=environment, check=False, capture_output=True)
        assert (tmp_path / "started").exists() is is_started
    assert (tmp_path / "loaded").read_text().splitlines() == ["load cuda/12.4 []", "load gcc []", "load gone []"]
    assert script_of(SlurmSettings(folder="/shared"), REQUEST, "http://server").startswith("#!/bin/sh\n")
