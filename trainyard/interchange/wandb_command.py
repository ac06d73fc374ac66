"""The program and the command of W&B's ``sweep.yaml`` as the spec of a run."""

from __future__ import annotations

import re
from collections.abc import Mapping

from trainyard.contract.base import JsonObject
from trainyard.interchange.wandb_parameters import first
from trainyard.spec.problems import Problem, SpecError, show
from trainyard.spec.sweeps.overlay import as_text

DEFAULT_COMMAND = ["${env}", "${interpreter}", "${program}", "${args}"]
PLACES = {
    "${args}": "",
    "${args_no_hyphens}": "hands parameters over as name=value",
    "${args_no_boolean_flags}": "hands what is true over as --name alone, and what is false not at all",
    "${args_json}": "hands parameters over as JSON",
    "${args_json_file}": "hands parameters over in a file with JSON",
}
LAUNCHERS = ("torchrun", "accelerate", "mpirun", "deepspeed", "srun")
VARIABLE = re.compile(r"\$\{envvar:([A-Za-z_][A-Za-z0-9_]*)\}")


def task_of(
    document: JsonObject, space: Mapping[str, JsonObject], constants: JsonObject, remarks: list[str]
) -> JsonObject:
    """Return the task of a run. Each option is in it as W&B writes it, ``--name=value``: what varies is put there."""
    program = document.get("program")
    command = document.get("command", DEFAULT_COMMAND)
    if not isinstance(command, list) or not all(isinstance(one, str | int | float) for one in command):
        raise SpecError([Problem("command", f"must be a list of words, not {show(command)}")])
    words = [str(one) for one in command if one != "${env}"]
    if "${program}" in words and not (isinstance(program, str) and program):
        raise SpecError([Problem("program", f"must be the path of a program, not {show(program)}")])
    _remark_on_arguments(words, remarks)
    before, behind = _around_arguments(words)
    before = [str(program) if one == "${program}" else one for one in before]
    values = {**constants, **{name: first(entry) for name, entry in space.items()}}
    options = [f"--{name}={as_text(value)}" for name, value in values.items()]
    if any(isinstance(one, bool) for one in values.values()):
        remarks.append("parameters: true and false are handed over in these words, where W&B writes True and False")
    own, task = _program(before, remarks)
    task["arguments"] = _without_variables([*own, *options, *behind], remarks)
    return {**task, "code": "."}


def _around_arguments(words: list[str]) -> tuple[list[str], list[str]]:
    place = next((place for place, one in enumerate(words) if one in PLACES), len(words))
    return words[:place], [one for one in words[place + 1 :] if one not in PLACES]


def _remark_on_arguments(words: list[str], remarks: list[str]) -> None:
    given = [one for one in words if one in PLACES]
    if not given:
        remarks.append(
            "command: has no ${args}, so the program reads wandb.config; here it is given each parameter as "
            "--name=value, which it must read"
        )
    for one in given:
        if PLACES[one]:
            remarks.append(f"command: {one} {PLACES[one]}; here each is --name=value, which the program must read")


def _program(words: list[str], remarks: list[str]) -> tuple[list[str], JsonObject]:
    """Return the words behind the program, and the task without them."""
    interpreted = words[1:] if words[:1] in (["${interpreter}"], ["python"], ["python3"]) else words
    if interpreted[:1] and interpreted[0].endswith(".py"):
        return interpreted[1:], {"script": interpreted[0]}
    if interpreted[:1] == ["-m"] and len(interpreted) > 1 and interpreted is not words:
        return interpreted[2:], {"module": interpreted[1]}
    command = ["python" if one == "${interpreter}" else one for one in words]
    if not command:
        raise SpecError([Problem("command", "has no program")])
    if command[0] in LAUNCHERS:
        remarks.append(
            f"command: {command[0]} is kept as it is; to have Trainyard start the processes, name the script and set "
            "resources.nodes and resources.processes_per_node"
        )
    return [], {"command": _without_variables(command, remarks)}


def _without_variables(words: list[str], remarks: list[str]) -> list[str]:
    kept = []
    for one in words:
        if found := VARIABLE.fullmatch(one):
            remarks.append(f"command: {one} is a variable of the agent's machine; set task.environment.{found[1]} here")
            kept.append(f"${{{found[1]}}}")
        else:
            kept.append(one)
    return kept
