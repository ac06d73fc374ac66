"""Commands about sweeps: starting one, watching it to its end, and what one may ask of it."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from trainyard.cli.commands import command, group, speaks_json, takes_overrides
from trainyard.cli.launching import loaded, overrides_of, read_spec, with_code
from trainyard.cli.screen import STATUS_STYLES, Screen, figure
from trainyard.contract.answers import sweeps as sweep_answers
from trainyard.contract.base import JsonObject, convert, to_builtins
from trainyard.contract.statuses import SWEEP_FINAL, SweepStatus, TrialState
from trainyard.formats.figures import duration, number, percent
from trainyard.formats.words import counted
from trainyard.interchange.optuna_storage import read_study, write_study
from trainyard.interchange.study import Study, renamed
from trainyard.interchange.wandb_sweeps import translate as translated
from trainyard.interchange.warm_start import warm_start
from trainyard.rest.answers import Named
from trainyard.rest.client import SUBMIT_S, Client, quoted
from trainyard.rest.connection import ApiError
from trainyard.spec import Problem, SpecError, parse_spec
from trainyard.spec.document import as_yaml, parse_document
from trainyard.spec.sweeps import first_point, parse_sweep, trial_document

MOST_FILE_BYTES = 1_000_000
POLL_S = 0.5
START = "start"


def add_sweeps(commands: Any) -> None:
    """Add ``scale`` and the words of ``sweep`` to the command line; ``sweep FILE`` is ``sweep start FILE``."""
    scaled = command(commands, "scale", scale, "train the job in FILE on several numbers of ranks, one after another")
    scaled.add_argument("file", metavar="FILE", help="as for submit")
    scaled.add_argument("--ranks", type=_ranks, default=[1, 2, 4], metavar="N,N", help="the sizes (default: 1,2,4)")
    scaled.add_argument("--steps", type=int, metavar="N", help="of each run (default: as the spec says)")
    scaled.add_argument("--weak", action="store_true", help="keep the batch of a rank, and not the global batch")
    takes_overrides(scaled, "set a field of the spec, such as train.batch_size=64; may be repeated")
    verbs = group(commands, "sweep", "search for better parameters", "FILE|COMMAND")
    started = command(verbs, START, start, "start the sweep in FILE and print its id")
    started.add_argument("file", metavar="FILE", help="a sweep in YAML or JSON; - reads it from the standard input")
    started.add_argument("--wait", action="store_true", help="wait for the end; exit 0 only if the sweep succeeded")
    started.add_argument("--preview", action="store_true", help="say what it would cost, and start nothing")
    command(verbs, "show", show, "show a sweep: its best, its trials", _takes_sweep, speaks_json)
    tried = command(verbs, "try", try_parameters, "have a sweep try parameters that you choose", _takes_sweep)
    takes_overrides(tried, "a parameter; may be repeated")
    sentence = "launch the best trial again with several seeds, and print the runs' ids"
    again = command(verbs, "launch", launch, sentence, _takes_sweep)
    again.add_argument("--trial", type=int, metavar="NUMBER", help="another trial than the best")
    again.add_argument("--seeds", type=int, default=3, metavar="N", help="how many runs (default: 3)")
    _add_exchanging(verbs)


def _takes_sweep(command: argparse.ArgumentParser) -> None:
    command.add_argument("id", metavar="ID", help="the sweep's id")


def with_start(words: list[str]) -> list[str]:
    """Return the words of a command line with ``sweep FILE`` written out as ``sweep start FILE``: a file has a dot or
    a slash in its name, as no command has."""
    is_file = len(words) > 1 and words[0] == "sweep" and (words[1] == "-" or {".", "/"} & set(words[1]))
    return ["sweep", START, *words[1:]] if is_file else words


def start(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    document = _with_code(client, *_document(arguments.file), screen)
    if arguments.preview:
        found = client.call("POST", "sweeps/preview", sweep_answers.SweepPreview, json=document, timeout=SUBMIT_S)
        return _preview(found, screen)
    sweep = client.start_sweep(document)
    print(sweep["id"], flush=True)
    if not arguments.wait:
        return 0
    return 0 if follow(client, sweep["id"], screen)["status"] == SweepStatus.SUCCEEDED else 1


def _document(name: str) -> tuple[JsonObject, Path]:
    """Return the sweep in a file, and the folder that the ``code`` of its base is relative to. A base that names a file
    is read from there. Raises SpecError here already."""
    if name == "-":
        document, folder = parse_document(sys.stdin.read(), "the standard input"), Path()
    else:
        document, folder = loaded(Path(name)), Path(name).parent
    if isinstance(document, dict) and set(document) == {"sweep"}:
        document = document["sweep"]
    if isinstance(document, dict) and isinstance(base := document.get("base"), str):
        document, folder = {**document, "base": loaded(folder / base, "base")}, (folder / base).parent
    parse_sweep(document)
    found: JsonObject = document
    return found, folder


def _with_code(client: Client, document: JsonObject, folder: Path, screen: Screen) -> JsonObject:
    """Return the sweep with the code of its script packed and sent, where it is a folder on this machine. What is wrong
    with the base otherwise, the server says."""
    sweep = parse_sweep(document)
    try:
        trial = None if sweep.job else parse_spec(trial_document(sweep, sweep.base, 0, first_point(sweep)))
    except SpecError:
        return document
    return {**document, "base": with_code(client, sweep.base, trial, folder, screen)}


def _preview(found: sweep_answers.SweepPreview, screen: Screen) -> int:
    screen.line(f"trials     {found['trials']} ({found['runs']} runs of {found['slots_per_trial']} slots)")
    if found["trial_s"] is not None and found["total_s"] is not None:
        each, in_all = duration(found["trial_s"]), duration(found["total_s"])
        screen.line(f"cost       {each} each, {in_all} in all, {figure(found['slot_hours'])} slot hours")
    for one in found["refused"]:
        shown = ", ".join(f"{path}={value}" for path, value in one["parameters"].items())
        screen.line(f"cannot run {shown}: {one['problem']}", "yellow")
    if found["num_refused"]:
        screen.line(f"{found['num_refused']} of {found['num_tried']} points that were tried cannot run", "yellow")
    return 0


def follow(client: Client, sweep_id: str, screen: Screen) -> sweep_answers.Sweep:
    """Return the sweep when it has ended; each trial that ends is a line."""
    seen: set[int] = set()
    while True:
        sweep = client.sweep(sweep_id)
        for trial in sweep["trials"]:
            if trial["state"] in (TrialState.WAITING, TrialState.RUNNING) or trial["number"] in seen:
                continue
            seen.add(trial["number"])
            metrics = [one["metric"] for one in sweep.get("objectives", [])] or [sweep["metric"]]
            values = "".join(f" {name} {figure(one)}" for name, one in zip(metrics, trial["values"], strict=False))
            screen.say(f"trial {trial['number']} {trial['state']}{values} {_shown(trial['parameters'])}".rstrip())
        if sweep["status"] in SWEEP_FINAL:
            break
        time.sleep(POLL_S)
    screen.say(f"{sweep['status']}: {sweep['reason']['sentence']}")
    if (best := sweep["best"]) is not None:
        screen.say(f"best: trial {best['number']}, {sweep['metric']} {figure(best['value'])}")
    return sweep


def scale(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    document, spec, folder = read_spec(arguments.file, overrides_of(arguments.overrides))
    document = with_code(client, document, spec, folder, screen)
    asked = {"spec": document, "ranks": arguments.ranks, "steps": arguments.steps, "weak": arguments.weak}
    sweep = client.call("POST", "sweeps/scaling", sweep_answers.Sweep, json=asked, timeout=SUBMIT_S)
    screen.say(f"Study {sweep['id']}. It goes on without this terminal: `trainyard sweep show {sweep['id']}`.")
    sweep = follow(client, sweep["id"], screen)
    _show_scaling(sweep.get("scaling"), screen)
    return int(sweep["status"] != SweepStatus.SUCCEEDED)


def _ranks(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


def _show_scaling(found: sweep_answers.Scaling | None, screen: Screen) -> None:
    if found is None:
        return
    rows = []
    for one in found["sizes"]:
        told, figures = one["predicted"], (one["steps_per_second"], one["speed_up"])
        promised = f"{told['speed_up']:.2f} ({told['low']:.2f} to {told['high']:.2f}, {told['by']})" if told else ""
        lost = ", ".join(f"{name} {percent(share)}" for name, share in one["losses"].items() if share >= 0.005)
        cells = *map(number, figures), percent(one["efficiency"]), promised, one["reason"] or lost
        rows.append((one["ranks"], one["state"], *cells))
    screen.table(("ranks", "state", "steps/s", "speed-up", "efficiency", "predicted", "lost to"), rows)
    screen.line(found["verdict"])


def show(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    sweep = client.sweep(arguments.id)
    if arguments.json:
        screen.json(sweep)
        return
    screen.line(f"{sweep['name']} ({sweep['id']})", "bold")
    _show_scaling(sweep.get("scaling"), screen)
    style = STATUS_STYLES.get(sweep["status"], "")
    screen.line(f"{sweep['status']}: {sweep['reason']['sentence']}".rstrip(": "), style)
    if (best := sweep["best"]) is not None:
        run = f", run {best['run']}" if best["run"] else ""
        screen.line(f"best       trial {best['number']}, {sweep['metric']} {figure(best['value'])}{run}")
        screen.line(f"           {_shown(best['parameters'])}")
    if front := sweep.get("front"):
        screen.line(f"front      {'trial' if len(front) == 1 else 'trials'} {', '.join(map(str, front))}")
    _show_importance(client, sweep["id"], screen)
    _show_trials(sweep, screen)


def _show_importance(client: Client, sweep: str, screen: Screen) -> None:
    try:
        found = client.call("GET", f"sweeps/{quoted(sweep)}/importance", sweep_answers.Importance)
    except ApiError as error:
        if error.status == 404:  # an older server does not know it
            return
        raise
    for place, one in enumerate(found["fields"]):
        head = "" if place else "matters"
        screen.line(f"{head:<10} {one['path']} {one['fanova']:.0%} ± {one['fanova_error']:.0%}")
    if found["sentence"]:
        screen.line(f"{'' if found['fields'] else 'matters':<10} {found['sentence']}")


def _show_trials(sweep: sweep_answers.Sweep, screen: Screen) -> None:
    metrics = [one["metric"] for one in sweep.get("objectives", [])] or [sweep["metric"]]
    rows = []
    for one in sweep["trials"]:
        values = [*map(figure, one["values"]), *["–"] * len(metrics)][: len(metrics)]
        rows.append((one["number"], one["run"], one["state"], *values, one["steps"], _shown(one["parameters"])))
    if rows:
        screen.line("")
        screen.table(("trial", "run", "state", *metrics, "steps", "parameters"), rows)
    reasons = [f"trial {one['number']} {one['state']}: {one['reason']}" for one in sweep["trials"] if one["reason"]]
    for line in ["", *reasons] if reasons else []:
        screen.line(line)


def try_parameters(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    asked = {"parameters": overrides_of(arguments.overrides)}
    sweep = client.call("POST", f"sweeps/{quoted(arguments.id)}/trials", sweep_answers.Sweep, json=asked)
    print(sweep["trials"][-1]["number"], flush=True)


def launch(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    asked = {"number": arguments.trial, "seeds": arguments.seeds}
    made = client.call("POST", f"sweeps/{quoted(arguments.id)}/launch", sweep_answers.Launched, json=asked)
    for run in made["runs"]:
        print(run, flush=True)


def _shown(parameters: JsonObject) -> str:
    return " ".join(f"{path}={_value(value)}" for path, value in parameters.items())


def _value(value: Any) -> str:
    return figure(value) if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)


# The commands ``sweep import``, ``sweep export`` and ``sweep translate``: searches from other tools, and to them.


def _add_exchanging(verbs: Any) -> None:
    """Add the words of ``sweep`` that have to do with other tools, and with populations."""
    taken = command(verbs, "import", import_study, "start a sweep with the finished trials of a study of Optuna")
    taken.add_argument("storage", metavar="URL", help="Optuna's storage, such as sqlite:///studies.db")
    taken.add_argument("--study", metavar="NAME", help="which study (default: the only one)")
    taken.add_argument("--base", metavar="FILE", dest="file", required=True, help="the spec of a run, in YAML or JSON")
    taken.add_argument("--metric", action="append", metavar="NAME", help="what runs log for each objective, in order")
    taken.add_argument("--trials", type=int, default=20, metavar="N", help="how many are to come (default: 20)")
    taken.add_argument("--sampler", default="tpe", help="who proposes them (default: tpe)")
    taken.add_argument("--name", help="what the sweep is called (default: as the study)")
    taken.add_argument("--dry-run", action="store_true", help="print the sweep as YAML, and start nothing")
    takes_overrides(taken, "set a field of the base")
    _takes_names(taken)
    sentence = "write the finished trials of a sweep into a storage of Optuna"
    given = command(verbs, "export", export_sweep, sentence, _takes_sweep)
    given.add_argument("storage", metavar="URL", help="Optuna's storage; a file that is not there is made")
    given.add_argument("--study", metavar="NAME", help="what the study is called (default: as the sweep)")
    _takes_names(given)
    other = command(verbs, "translate", translate, "print W&B's sweep.yaml as a sweep, and what has no counterpart")
    other.add_argument("file", metavar="FILE", help="W&B's sweep, in YAML or JSON")
    other.set_defaults(is_local=True)


def _takes_names(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--map", action="append", default=[], metavar="NAME=PATH",
        help="a parameter of the study and its path in a spec, such as lr=train.learning_rate; may be repeated",
    )  # fmt: skip


def import_study(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    study, unfinished = read_study(arguments.storage, arguments.study or "")
    if unfinished:
        screen.say(f"Left out: {counted(unfinished, 'trial')} that had not ended.")
    study = renamed(study, names_of(arguments.map))
    base, spec, folder = read_spec(arguments.file, overrides_of(arguments.overrides))
    metrics, name = arguments.metric or [], arguments.name or ""
    document, remarks = warm_start(
        study, base, metrics=metrics, trials=arguments.trials, name=name, sampler=arguments.sampler
    )
    for remark in remarks:
        screen.say(remark, "yellow")
    parse_sweep(document)
    if arguments.dry_run:
        print(as_yaml({"sweep": document}), end="")
        return
    document["base"] = with_code(client, document["base"], spec, folder, screen)
    asked = {"sweep": document, "study": to_builtins(study)}
    print(client.call("POST", "sweeps/import", Named, json=asked, timeout=SUBMIT_S)["id"], flush=True)
    screen.say(f"{counted(len(study.trials), 'trial')} of {study.name} taken over; {arguments.trials:,} to come.")


def export_sweep(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    document = client.call("GET", f"sweeps/{quoted(arguments.id)}/study", Study, timeout=SUBMIT_S)
    study = renamed(convert(document, Study), {path: name for name, path in names_of(arguments.map).items()})
    if arguments.study:
        study = msgspec.structs.replace(study, name=arguments.study)
    write_study(arguments.storage, study)
    screen.line(f"{study.name}: {counted(len(study.trials), 'trial')}")


def translate(client: Client | None, arguments: argparse.Namespace, screen: Screen) -> None:
    document, remarks = translated(parse_document(_bounded(arguments.file), arguments.file))
    for remark in remarks:
        screen.say(remark, "yellow")
    parse_sweep(document)
    print(as_yaml({"sweep": document}), end="")


def names_of(pairs: list[str]) -> dict[str, str]:
    """Return the pairs of ``--map NAME=PATH``. Raises SpecError."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, path = pair.rpartition("=")
        if not (equals and name and path):
            raise SpecError([Problem("", f"--map takes NAME=PATH, such as lr=train.learning_rate, not {pair!r}")])
        found[name] = path
    return found


def _bounded(name: str) -> bytes:
    path = Path(name)
    try:
        if path.stat().st_size > MOST_FILE_BYTES:
            raise SpecError([Problem("", f"{name} has more than {MOST_FILE_BYTES:,} bytes")])
        return path.read_bytes()
    except OSError as error:
        raise SpecError([Problem("", f"{name} cannot be read: {error.strerror or error}")]) from None
