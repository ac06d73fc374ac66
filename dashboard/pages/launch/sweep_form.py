"""A sweep on the launch form: what varies, what counts as better, and how much may be spent on finding it."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from django.http import QueryDict

from dashboard.pages.launch.plan import Cost, problems_in
from dashboard.pages.launch.space_entries import SpaceEntry, entries_of, plain, space_in
from runs.models import User
from runs.rights.access import Forbidden, NotFound
from runs.sweeps.checking import Preview, preview
from trainyard.contract.base import JsonObject
from trainyard.spec import KINDS, Problem, SpecError
from trainyard.spec.document import as_yaml
from trainyard.spec.sweeps.models import MAX_SEEDS, Pruner, Sampler
from trainyard.spec.values.fields import number_in

DEFAULTS = {
    "metric": "val/loss", "direction": "minimize", "of": "last", "second": "", "second_direction": "minimize",
    "trials": "20", "parallel": "2", "sampler": "tpe", "size": "4", "interval": "100", "pruner": "asha", "by": "steps",
    "min": "", "ahead": "", "seeds": "1", "time": "", "gpu_hours": "", "failures": "5", "seed": "0", "warm_start": "",
    "kept": "",
}  # fmt: skip
BUDGET = ("trials", "parallel", "ahead", "gpu_hours", "failures")
POPULATION, OPTIONS = "population", ("size", "interval")
METHODS: dict[str, type[Sampler] | type[Pruner]] = {"sampler": Sampler, "pruner": Pruner}
SHOWN = ("by", "min")  # options of a pruner that have fields


class SweepTyped(NamedTuple):
    """The texts of the form. ``is_open``: the form is about a sweep, even where nothing varies yet."""

    is_open: bool
    entries: list[SpaceEntry]
    texts: dict[str, str]

    def document(self, base: JsonObject) -> JsonObject:
        """The document of the sweep over the base spec. What stands at its default is left out."""
        texts = self.texts
        objectives: list[JsonObject] = [
            {"metric": texts["metric"], "direction": texts["direction"], "of": texts["of"]},
            {"metric": texts["second"], "direction": texts["second_direction"]},
        ]
        budget = {name: number_in(texts[name]) for name in BUDGET if texts[name] and not self._is_usual(name)}
        budget |= {"parallel": self._parallel()} if "parallel" in budget else {}
        return {
            "name": base.get("name", ""),
            **({"project": base["project"]} if "project" in base else {}),
            "base": base,
            "space": {one.path: one.as_document() for one in self.entries},
            "objective": objectives if texts["second"] else objectives[0],
            "budget": budget | ({"time": texts["time"]} if texts["time"] else {}),
            "sampler": self._sampler(),
            "pruner": self._pruner(base.get("train") or {}),
            "seeds": number_in(texts["seeds"]),
            **({} if self._is_usual("seed") else {"seed": number_in(texts["seed"])}),
            **({"warm_start": True} if texts["warm_start"] else {}),
        }

    def _is_usual(self, name: str) -> bool:
        return name in ("failures", "seed") and self.texts[name] in ("", DEFAULTS[name])

    def _kept(self, section: str) -> JsonObject:
        """The options that the form does not show, of what it was filled from: as long as the method is the same."""
        kept = json.loads(self.texts["kept"] or "{}").get(section, {})
        return kept if kept.get("name") == self.texts[section] else {}

    def _parallel(self) -> float | int | str:
        """The members of a population train side by side."""
        asked, size = number_in(self.texts["parallel"]), number_in(self.texts["size"])
        is_fewer = isinstance(asked, int) and isinstance(size, int) and asked < size
        return size if self.texts["sampler"] == POPULATION and is_fewer else asked

    def _sampler(self) -> JsonObject:
        name = self.texts["sampler"]
        options = {one: number_in(self.texts[one]) for one in OPTIONS} if name == POPULATION else {}
        return {**self._kept("sampler"), "name": name, **options}

    def _pruner(self, train: JsonObject) -> JsonObject:
        """The pruner with the steps at which the metric is measured. A population stops bad trials itself."""
        if self.texts["sampler"] == POPULATION:
            return {"name": "none"}
        name, by, first, metric = (self.texts[one] for one in ("pruner", "by", "min", "metric"))
        if name == "none":
            return {"name": name}
        kept = self._kept("pruner")
        found: JsonObject = {**kept, "name": name, **({} if by == "steps" else {"by": by})}
        every, steps = train.get("validate_every_steps"), train.get("steps")
        if first:
            found["min"] = number_in(first)
        elif not kept and by == "steps" and metric.startswith("val/") and isinstance(every, int) and every:
            found["min"] = every
        if name == "hyperband" and by == "steps" and isinstance(steps, int):
            found.setdefault("max", steps)
        return found


class SweepPlan(NamedTuple):
    """Result of the sweep if it were launched; ``preview`` is None where there are problems, which say why."""

    preview: Preview | None
    problems: list[Problem]
    yaml: str
    command: str
    parallel: int  # trials at once, as asked for; never more than there are
    basis: str = ""  # what the times are counted with


def typed_in(post: QueryDict) -> SweepTyped:
    _, entries = space_in(post)
    texts = {name: post.get(f"sweep:{name}", default).strip()[:200] for name, default in DEFAULTS.items()}
    texts["kept"] = _plain_object(post.get("sweep:kept", ""))
    return SweepTyped("sweep" in post or bool(entries), entries, texts)


def typed_of(document: JsonObject) -> SweepTyped:
    objectives = document["objective"] if isinstance(document["objective"], list) else [document["objective"]]
    first, second = objectives[0], objectives[1] if len(objectives) > 1 else {}
    budget, sampler = document["budget"], document["sampler"]
    texts = {
        "metric": first["metric"],
        "direction": first["direction"],
        "of": first["of"],
        "second": second.get("metric", ""),
        "second_direction": second.get("direction", "minimize"),
        "sampler": sampler["name"],
        "pruner": document["pruner"]["name"],
        "by": document["pruner"]["by"],
        "min": str(document["pruner"]["min"]) if document["pruner"]["name"] != "none" else "",
        "seeds": str(document["seeds"]),
        "seed": str(document["seed"]),
        "warm_start": "on" if document["warm_start"] else "",
        "kept": json.dumps({name: _unusual(document[name], kind) for name, kind in METHODS.items()}),
        **{name: str(budget[name]) for name in (*BUDGET, "time") if budget.get(name) not in (None, "")},
        **{name: str(sampler[name]) for name in OPTIONS},
    }
    return SweepTyped(True, entries_of(document["space"]), {**DEFAULTS, **texts})


def sweep_plan(user: User, typed: SweepTyped, base: JsonObject, cost: Cost | None = None) -> SweepPlan:
    """Return what the sweep would become; nothing is written. ``cost`` is that of its base alone."""
    document = typed.document(base)
    text = as_yaml(document)
    found, parallel, problems = None, 1, list[Problem]()
    measured = cost.measured if cost else None
    try:
        found = preview(user, document, pace=measured.pace if measured else 1.0)
        parallel = min(found["trials"], int(document["budget"].get("parallel", 1)))
    except (SpecError, NotFound, Forbidden) as error:
        problems = problems_in(error)
    command = f"trainyard sweep - <<'END_OF_SWEEP'\n{text}END_OF_SWEEP"
    return SweepPlan(found, problems, text, command, parallel, _basis(cost))


def _basis(cost: Cost | None) -> str:
    if cost and cost.measured:
        return f"Counted with {cost.measured.words} a step, as measured in runs of this plan."
    return f"Counted with speeds that {'a benchmark measured here' if cost and cost.rates_at else 'are assumed'}."


def base_problems(problems: Sequence[Problem]) -> list[Problem]:
    """Return the problems of the base spec's fields, under the paths that the form has."""
    return [one._replace(path=one.path.removeprefix("base").strip(".")) for one in problems if _is_at(one.path, "base")]


def context(typed: SweepTyped, problems: Sequence[Problem]) -> dict[str, object]:
    main, advanced = (controls_of(fields, typed.texts, problems) for fields in (MAIN, ADVANCED))
    rows = [{**one._asdict(), "problem": _problem_of(one.path, problems)} for one in typed.entries]
    return {
        "sweep": typed,
        "sweep_rows": json.dumps(rows),
        "sweep_problems": _rest(typed, problems),
        "sweep_controls": main,
        "sweep_advanced": advanced,
        "is_sweep_advanced": any(one.problem or one.value != DEFAULTS[one.info.name] for one in advanced),
        "sweep_metrics": METRICS,
        "sweep_places": _places(rows, [*main, *advanced]),
    }


def _places(rows: Sequence[Mapping[str, object]], controls: "Sequence[SweepControl]") -> list[tuple[str, str]]:
    """Return the places with problems: ids of elements, with words."""
    found = [(one.id, one.info.label) for one in controls if one.problem]
    return [*found, ("sweep-title", "what varies")] if any(row["problem"] for row in rows) else found


def _rest(typed: SweepTyped, problems: Sequence[Problem]) -> list[Problem]:
    """Return the problems of the sweep that stand beside no field."""
    places = ["base", *(f"space.{one.path}" for one in typed.entries)]
    rest = [one for one in problems if not any(_is_at(one.path, place) for place in places)]
    return [one for one in rest if not field_of(one.path)]


def _is_at(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}.")


def _problem_of(path: str, problems: Sequence[Problem]) -> str:
    place = f"space.{path}"
    words = (f"{one.path.removeprefix(place)[1:]} {one.message}" for one in problems if _is_at(one.path, place))
    return next(words, "").strip()


def _unusual(options: JsonObject, kind: type[Sampler] | type[Pruner]) -> JsonObject:
    """The name of the method, and of its options those that are not as usual."""
    usual = kind().model_dump(mode="json")
    shown = SHOWN if kind is Pruner else ()
    return {
        name: value
        for name, value in options.items()
        if name == "name" or (value != usual.get(name) and name not in shown)
    }


def _plain_object(text: str) -> str:
    """The text where it is a JSON object of objects; else nothing."""
    found = plain(text[:4000]) if text else {}
    return json.dumps(found) if isinstance(found, dict) and all(isinstance(one, dict) for one in found.values()) else ""


# The fields of a sweep as the launch form draws them: words, choices, and what is wrong beside each.

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
MEASURES = {"steps": "steps", "time": "seconds of training", "tokens": "tokens"}
WAYS = {"minimize": "lower", "maximize": "higher"}
OF = {"last": "its last value", "best": "its best value", "area": "the area below it"}
WARM = {"": "none", "on": "runs of the project that fit"}
ALONE = " ".join(one for one in SAMPLERS if one != "population")  # a population stops bad trials itself


class SweepField(NamedTuple):
    """A field of the form. ``choices`` make it a list; ``paths`` are those of problems that stand beside it; ``needs``
    are the samplers that read it, with spaces between them."""

    name: str
    label: str
    help: str
    paths: tuple[str, ...]
    choices: Mapping[str, str] | None = None
    is_whole: bool = True  # a number
    example: str = ""
    is_metric: bool = False
    is_double: bool = False
    needs: str = ""


class SweepControl(NamedTuple):
    info: SweepField
    id: str
    value: str
    options: list[tuple[str, str, bool]]  # value, words, and whether it is the one that was typed
    problem: str
    is_hidden: bool
    kinds: str  # of task: all have it


MAIN = (
    SweepField("metric", "Objective", "A metric that each trial logs.", ("objective", "objective.0"), is_metric=True),
    SweepField("direction", "Better is", "Where it goes.", ("objective.direction", "objective.0.direction"), WAYS),
    SweepField("of", "What counts", "Of all its values in a trial.", ("objective.of", "objective.0.of"), OF),
    SweepField("trials", "Trials", "Each is a whole run.", ("budget", "budget.trials")),
    SweepField("parallel", "At once", "Trials that train side by side.", ("budget.parallel",)),
    SweepField("sampler", "Search", "How the next values are chosen.", ("sampler",), SAMPLERS, is_double=True),
    SweepField("size", "Members", "Trials that take over from each other.", ("sampler.size",), needs="population"),
    SweepField("interval", "Compare every", "Steps between two comparisons.", ("sampler.interval",),
               needs="population"),
    SweepField(
        "pruner", "Early stopping", "Ends trials that are behind. They keep their checkpoint.", ("pruner",), PRUNERS,
        is_double=True, needs=ALONE,
    ),
    SweepField("by", "Compared by", "How far trials must have come to be compared.", ("pruner.by",), MEASURES,
               needs=ALONE),
    SweepField("min", "First look at", "So many steps, seconds or tokens. Empty: the first validation.",
               ("pruner.min",), needs=ALONE),
)  # fmt: skip
ADVANCED = (
    SweepField("ahead", "Queued ahead", "Trials that wait for a place, so that the next one starts at once. Empty: "
               "none where the search learns from trials.", ("budget.ahead",)),
    SweepField("seeds", "Seeds a trial", f"Runs of its values, up to {MAX_SEEDS}. Their mean counts.", ("seeds",)),
    SweepField("time", "Time limit", "Then no trial is started.", ("budget.time",), is_whole=False, example="12h"),
    SweepField("gpu_hours", "GPU-hours at most", "Hours times slots, of all trials.", ("budget.gpu_hours",),
               is_whole=False, example="24"),
    SweepField("failures", "Failures in a row", "So many end the sweep.", ("budget.failures",)),
    SweepField("second", "Second objective", "Then there is a front, and no best trial.", ("objective.1",),
               is_metric=True),
    SweepField("second_direction", "Better is", "Of the second objective.", ("objective.1.direction",), WAYS),
    SweepField("seed", "Seed of the search", "The same results give the same trials.", ("seed",)),
    SweepField("warm_start", "Earlier runs", "Count as trials that are over.", ("warm_start",), WARM),
)  # fmt: skip


def controls_of(fields: Sequence[SweepField], texts: dict[str, str], problems: Sequence[Problem]) -> list[SweepControl]:
    return [
        SweepControl(
            info=one,
            id=f"sweep-{one.name.replace('_', '-')}",
            value=texts[one.name],
            options=[(value, words, value == texts[one.name]) for value, words in (one.choices or {}).items()],
            problem="; ".join(problem.message for problem in problems if field_of(problem.path) == one.name),
            is_hidden=bool(one.needs) and texts["sampler"] not in one.needs.split(),
            kinds=" ".join(KINDS),
        )
        for one in fields
    ]


def field_of(path: str) -> str:
    """The name of the field that a problem's path belongs to; empty where there is none."""
    starts = [(len(start), one.name) for one in (*MAIN, *ADVANCED) for start in one.paths if _is_at(path, start)]
    return max(starts)[1] if starts else ""
