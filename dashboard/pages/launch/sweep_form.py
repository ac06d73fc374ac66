"""A sweep on the launch form: what varies, what counts as better, and how much may be spent on finding it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple, get_args

import yaml
from django.http import QueryDict

from dashboard.pages.launch.space_entries import SpaceEntry, entries_of, number_in, space_in
from runs.access import Forbidden, NotFound
from runs.models import User
from runs.sweeps.checking import Preview, preview
from trainyard.contract.base import JsonObject
from trainyard.spec import Problem, SpecError
from trainyard.spec.sweeps.models import Direction, PrunerName, Reduction, SamplerName

DEFAULTS = {
    "metric": "val/loss",
    "direction": "minimize",
    "of": "last",
    "second": "",
    "second_direction": "minimize",
    "trials": "20",
    "parallel": "2",
    "sampler": "tpe",
    "pruner": "asha",
    "seeds": "1",
    "time": "",
    "gpu_hours": "",
}
METRICS = ("val/loss", "val/accuracy", "val/r2", "train/loss", "train/tokens_per_second", "train/samples_per_second")
SAMPLERS = {
    "tpe": "TPE: learns from what it tried",
    "gp": "Gaussian process: few, costly trials",
    "cmaes": "CMA-ES: many trials over numbers",
    "random": "random",
    "quasi-random": "quasi-random: spread evenly",
    "grid": "grid: every combination",
    "nsga2": "NSGA-II: several objectives",
    "population": "population: trains on from better trials",
}
PRUNERS = {
    "none": "none: every trial runs to its end",
    "median": "median: worse than half of the others",
    "asha": "ASHA: the best third goes on",
    "hyperband": "Hyperband: ASHA with several first steps",
}
WAYS = {"minimize": "lower", "maximize": "higher"}
OF = {"last": "its last value", "best": "its best value", "area": "the area below it"}
OFFERED = {
    "direction": Direction,
    "second_direction": Direction,
    "of": Reduction,
    "sampler": SamplerName,
    "pruner": PrunerName,
}


class SweepTyped(NamedTuple):
    """The texts of the form. ``is_open``: the form is about a sweep, even where nothing varies yet."""

    is_open: bool
    entries: list[SpaceEntry]
    texts: dict[str, str]

    def document(self, base: JsonObject) -> JsonObject:
        """The document of the sweep over the base spec."""
        texts = self.texts
        objectives: list[JsonObject] = [
            {"metric": texts["metric"], "direction": texts["direction"], "of": texts["of"]},
            {"metric": texts["second"], "direction": texts["second_direction"]},
        ]
        budget = {name: number_in(texts[name]) for name in ("trials", "parallel", "gpu_hours") if texts[name]}
        return {
            "name": base.get("name", ""),
            **({"project": base["project"]} if "project" in base else {}),
            "base": base,
            "space": {one.path: one.as_document() for one in self.entries},
            "objective": objectives if texts["second"] else objectives[0],
            "budget": budget | ({"time": texts["time"]} if texts["time"] else {}),
            "sampler": {"name": texts["sampler"]},
            "pruner": _pruner(texts["pruner"], texts["metric"], base.get("train") or {}),
            "seeds": number_in(texts["seeds"]),
        }


class SweepPlan(NamedTuple):
    """What would come of the sweep; ``preview`` is None where the problems say why."""

    preview: Preview | None
    problems: list[Problem]
    yaml: str
    command: str


def nothing(*, is_open: bool = False) -> SweepTyped:
    return SweepTyped(is_open, [], dict(DEFAULTS))


def typed_in(post: QueryDict) -> SweepTyped:
    _, entries = space_in(post)
    texts = {name: post.get(f"sweep:{name}", default).strip()[:200] for name, default in DEFAULTS.items()}
    return SweepTyped("sweep" in post or bool(entries), entries, texts)


def typed_of(document: JsonObject) -> SweepTyped:
    """The form for the document of a sweep."""
    objectives = document["objective"] if isinstance(document["objective"], list) else [document["objective"]]
    first, second = objectives[0], objectives[1] if len(objectives) > 1 else {}
    budget = document["budget"]
    texts = {
        "metric": first["metric"],
        "direction": first["direction"],
        "of": first["of"],
        "second": second.get("metric", ""),
        "second_direction": second.get("direction", "minimize"),
        "sampler": document["sampler"]["name"],
        "pruner": document["pruner"]["name"],
        "seeds": str(document["seeds"]),
        **{name: str(budget[name]) for name in ("trials", "parallel", "time", "gpu_hours") if budget.get(name)},
    }
    return SweepTyped(True, entries_of(document["space"]), {**DEFAULTS, **texts})


def sweep_plan(user: User, typed: SweepTyped, base: JsonObject) -> SweepPlan:
    """What would come of it; nothing is written."""
    document = typed.document(base)
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)
    found, problems = None, list[Problem]()
    try:
        found = preview(user, document)
    except SpecError as error:
        problems = error.errors
    except (NotFound, Forbidden) as error:
        problems = [Problem("project", str(error))]
    return SweepPlan(found, problems, text, f"trainyard sweep - <<'END_OF_SWEEP'\n{text}END_OF_SWEEP")


def base_problems(problems: Sequence[Problem]) -> list[Problem]:
    """Those of the base spec's fields, under the paths that the form has."""
    return [one._replace(path=one.path.removeprefix("base").strip(".")) for one in problems if _is_of_base(one)]


def context(typed: SweepTyped, problems: Sequence[Problem]) -> dict[str, object]:
    """What the form draws of it."""
    return {
        "sweep": typed,
        "sweep_rows": json.dumps(_entry_rows(typed, problems)),
        "sweep_problems": _rest(typed, problems),
        "sweep_options": {name: _options(name, typed.texts) for name in OFFERED},
        "sweep_metrics": METRICS,
    }


def _entry_rows(typed: SweepTyped, problems: Sequence[Problem]) -> list[dict[str, object]]:
    """The entries as the page's script reads them, each with what is wrong with it."""
    return [{**one._asdict(), "problem": _problem_of(one.path, problems)} for one in typed.entries]


def _rest(typed: SweepTyped, problems: Sequence[Problem]) -> list[Problem]:
    """What is wrong with the sweep and stands beside no field."""
    paths = [f"space.{one.path}" for one in typed.entries]
    return [
        one
        for one in problems
        if not _is_of_base(one) and not any(one.path == path or one.path.startswith(f"{path}.") for path in paths)
    ]


def _options(name: str, texts: Mapping[str, str]) -> list[tuple[str, str, bool]]:
    """The choices of a field: value, words, and whether it is the one that was typed."""
    words: Mapping[str, str] = {
        "of": OF,
        "direction": WAYS,
        "second_direction": WAYS,
        "sampler": SAMPLERS,
        "pruner": PRUNERS,
    }.get(name, {})
    return [(one, words.get(one, one), one == texts[name]) for one in get_args(OFFERED[name])]


def _pruner(name: str, metric: str, train: JsonObject) -> JsonObject:
    """The pruner with the steps at which the metric is measured."""
    found: JsonObject = {"name": name}
    every, steps = train.get("validate_every_steps"), train.get("steps")
    if name in ("asha", "hyperband", "median") and metric.startswith("val/") and isinstance(every, int) and every > 0:
        found["min"] = every
    if name == "hyperband" and isinstance(steps, int):
        found["max"] = steps
    return found


def _is_of_base(problem: Problem) -> bool:
    return problem.path == "base" or problem.path.startswith("base.")


def _problem_of(path: str, problems: Sequence[Problem]) -> str:
    place = f"space.{path}"
    for one in problems:
        if one.path == place:
            return one.message
        if one.path.startswith(f"{place}."):
            return f"{one.path.removeprefix(f'{place}.')} {one.message}"
    return ""
