"""A short job for `trainyard doctor`: a program that each of some machines runs once."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from .documents import RayAnswer, RayRequest
from .machine import MAX_WORDS, OURS

PROGRAM_LIMIT_S = 40.0


def try_machines(request: RayRequest, limit_s: float) -> RayAnswer:
    deadline = time.monotonic() + limit_s
    group = placement_group([request.demand.bundle()] * request.num_machines, strategy=request.strategy)
    try:
        if not group.wait(timeout_seconds=limit_s / 2):
            return RayAnswer(problem=f"no room was free within {limit_s / 2:g} s", kind="refused")
        task = ray.remote(num_cpus=request.demand.cpus, num_gpus=request.demand.gpus, max_retries=0)(run_once)
        running = [
            task.options(
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
            ).remote([request.python, *request.words])
            for index in range(request.num_machines)
        ]
        found = ray.get(running, timeout=max(1.0, deadline - time.monotonic()))
    except GetTimeoutError:
        return RayAnswer(problem=f"it had not ended within {limit_s:g} s", kind="refused")
    except RayError as error:
        return RayAnswer(problem=" ".join(str(error).split())[:MAX_WORDS], kind="refused")
    finally:
        remove_placement_group(group)
    problems = [problem for _, problem in found if problem]
    return RayAnswer(outputs=[text for text, _ in found], problem="; ".join(dict.fromkeys(problems)), kind="refused")


def run_once(words: list[str]) -> tuple[str, str]:
    """Return what the program printed, and what was wrong with it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    words = [words[0] or sys.executable, *words[1:]]
    try:
        done = subprocess.run(
            words, env=environment, cwd="/", capture_output=True, text=True, timeout=PROGRAM_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"{words[0]}: {getattr(error, 'strerror', None) or error}"
    return done.stdout, "" if done.returncode == 0 else f"{words[0]}: {done.stderr.strip()[-MAX_WORDS:]}"
