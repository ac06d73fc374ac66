"""``trainyard ci FILE``: a change is trained with several seeds, and is green if it is not worse than a baseline."""

import argparse
import contextlib
import os
import re
import secrets
import signal
import subprocess
import time
from hashlib import sha256
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal, NamedTuple
from xml.etree import ElementTree

from pydantic import Field, ValidationError, model_validator

from trainyard.cli import comparing, launching
from trainyard.cli.screen import Screen, figure, safe
from trainyard.contract.answers import runs as run_answers
from trainyard.contract.statuses import FINAL, Status
from trainyard.formats.words import counted
from trainyard.rest.client import Client, quoted
from trainyard.rest.connection import ApiError, Unreachable
from trainyard.spec import Problem, Spec, SpecError
from trainyard.spec.document import merge
from trainyard.spec.problems import problems_of
from trainyard.spec.values.fields import Part

POLL_S = 1.0
BRANCHES = ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "CHANGE_BRANCH", "BRANCH_NAME")
REQUESTS = ("GITHUB_HEAD_REF", "CI_MERGE_REQUEST_IID", "CI_EXTERNAL_PULL_REQUEST_IID", "CHANGE_ID")
MOST_GREEN = 1_000  # runs of other pipelines of the branch among them
NO_XML = re.compile("[\ud800-\udfff\ufffe\uffff]")  # beside controls
BATCH = "ci-batch:"  # begins the tag of the runs that were compared together


class Baseline(Part):
    runs: Annotated[list[str], Field(max_length=200)] = Field(default=[])
    branch: str = ""

    @model_validator(mode="after")
    def _is_one(self) -> "Baseline":
        if bool(self.runs) == bool(self.branch):
            raise ValueError("takes runs (their ids) or branch (its last green runs), one of the two")
        return self


class Pipeline(Part):
    """What FILE says."""

    spec: str
    metric: str
    baseline: Baseline
    set: dict[str, Any] = Field(default={})
    seed: str = "train.seed"
    runs: Annotated[int, Field(ge=1, le=200)] = 18
    of: Literal["last", "min", "max"] = "last"
    better: Literal["lower", "higher"] = "lower"
    find: Annotated[float, Field(gt=0, le=100)] = 1.0
    alpha: Annotated[float, Field(ge=0.01, le=0.5)] = 0.05
    timeout_minutes: Annotated[float, Field(gt=0)] = 720.0


class Finding(NamedTuple):
    is_green: bool
    sentence: str


class Trained(NamedTuple):
    seed: int
    run: run_answers.Run
    value: float | None


def ci(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    asked = read_pipeline(Path(arguments.file))
    branch = arguments.branch or this_branch()
    read = launching.read_spec(str(Path(arguments.file).parent / asked.spec), asked.set)
    before = baseline_values(client, asked, read[1])
    batch = f"{BATCH}{secrets.token_hex(6)}"
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # how services cancel a pipeline
    started: list[str] = []
    try:
        trained, finding = _train(client, asked, read, [_tag(branch), batch], before, screen, started)
    except BaseException:  # a cancelled pipeline leaves nothing that trains on
        for one in started:
            with contextlib.suppress(ApiError, Unreachable):  # it has ended, or the server is away
                client.act(one, "stop")
        raise
    if finding.is_green and not is_of_request():
        for one in (seed.run["id"] for seed in trained):
            tags = [*client.run_document(one)["tags"], _tag(branch, "green")]
            client.call("PATCH", f"runs/{quoted(one)}", run_answers.RunDocument, json={"tags": tags})
    if arguments.junit:
        Path(arguments.junit).write_bytes(junit(asked, trained, finding))
    text = markdown(asked, trained, before, finding)
    if arguments.markdown:
        Path(arguments.markdown).write_text(text)
    screen.line(text)
    return 0 if finding.is_green else 1


def read_pipeline(path: Path) -> Pipeline:
    """Return what the file says. Raises SpecError."""
    try:
        return Pipeline.model_validate(launching.loaded(path))
    except ValidationError as error:
        fields = {"": list(Pipeline.model_fields), "baseline": list(Baseline.model_fields)}
        raise SpecError(problems_of(error, fields)) from None


def this_branch() -> str:
    """Return the branch that the services of pipelines name, else Git's."""
    named = next((os.environ[name] for name in BRANCHES if os.environ.get(name)), "")
    words = ["git", "rev-parse", "--abbrev-ref", "HEAD"]
    try:
        return named or subprocess.run(words, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        raise SpecError([Problem("--branch", "is needed: there is no Git repository here")]) from None


def is_of_request() -> bool:
    """Return whether the pipeline is of a request to merge. Its branch may be of a fork, and have any name."""
    of_github = os.environ.get("GITHUB_EVENT_NAME", "").startswith("pull_request")
    return of_github or any(os.environ.get(name) for name in REQUESTS)


def _tag(branch: str, word: str = "") -> str:
    """Return the tag of a branch's runs; a tag has at most 60 characters."""
    name = branch if len(branch) <= 40 else f"{branch[:27]}-{sha256(branch.encode()).hexdigest()[:12]}"
    return f"ci:{name}{word and ':'}{word}"


def baseline_values(client: Client, asked: Pipeline, spec: Spec) -> list[float]:
    """Return the metric of the baseline's runs; none where its branch has no green run yet. Raises SpecError where a
    run that is named has no such metric."""
    if asked.baseline.runs:
        named = [client.run(one) for one in asked.baseline.runs]
        missing = [one["id"] for one in named if value_of(one, asked) is None]
        if missing:
            raise SpecError([Problem("baseline.runs", f"{', '.join(missing)}: there is no value of {asked.metric}")])
        return [value for one in named if (value := value_of(one, asked)) is not None]
    found = client.run_documents(project=spec.project, tag=_tag(asked.baseline.branch, "green"), sort="-created_at")
    green = [one for one in islice(found, MOST_GREEN) if one["name"] == spec.name]  # other pipelines have other names
    batch = next((tag for one in green[:1] for tag in one["tags"] if tag.startswith(BATCH)), None)
    return [value for one in green if batch in one["tags"] and (value := value_of(one, asked)) is not None]


def value_of(run: run_answers.Run, asked: Pipeline) -> float | None:
    """Return the run's metric; None where it has none, or one that is not finite."""
    found = run["summary"].get(asked.metric)
    value = found[asked.of] if found is not None else None
    return float(value) if isinstance(value, int | float) else None


def _train(
    client: Client,
    asked: Pipeline,
    read: tuple[Any, Spec, Path],
    tags: list[str],
    before: list[float],
    screen: Screen,
    started: list[str],
) -> tuple[list[Trained], Finding]:
    """Train seed after seed, as far as needed to be sure; ``started`` gets the ids."""
    chance = comparing.power(asked.runs, len(before) or asked.runs, asked.find, asked.alpha)
    screen.say(
        f"{counted(asked.runs, 'run')}, to compare with {len(before) or 'as many later'}: of changes that are worse by"
        f" {asked.find:g} of their standard deviation {chance:.0%} are found,"
        f" and at most {asked.alpha:.0%} of those that change nothing are red."
    )
    document, spec, folder = read
    document = launching.with_code(client, merge(document, {"tags": [*spec.tags, *tags]}), spec, folder, screen)
    deadline = time.monotonic() + 60 * asked.timeout_minutes
    looks, trained = comparing.looks(asked.runs), list[Trained]()
    for number, count in enumerate(looks, 1):
        fresh = range(len(trained), count)
        for seed in fresh:
            started.append(client.submit(merge(document, {asked.seed: seed_value(asked, seed)}))["id"])
        for seed, one in zip(fresh, started[fresh.start :], strict=True):
            run = _ended(client, one, deadline)
            trained.append(Trained(seed, run, value_of(run, asked)))
            screen.say(f"seed {seed}: {run['status']} {asked.metric} {_shown(trained[-1].value)}")
        if (lost := next((one for one in trained if one.value is None), None)) is not None:
            return trained, Finding(False, _lost(lost, asked))
        finding = _judge([one.value for one in trained if one.value is not None], before, asked, number, len(looks))
        if not finding.is_green:
            break
    return trained, finding


def seed_value(asked: Pipeline, seed: int) -> int | str:
    return str(seed) if asked.seed.startswith("task.environment.") else seed  # environment variables are texts


def _ended(client: Client, run_id: str, deadline: float) -> run_answers.Run:
    """Return the run when it has ended. Past the deadline it is stopped."""
    while (run := client.run(run_id))["status"] not in FINAL:
        if time.monotonic() > deadline:
            client.act(run_id, "stop")
            deadline += 600
        time.sleep(POLL_S)
    return run


def _lost(one: Trained, asked: Pipeline) -> str:
    if one.run["status"] != Status.SUCCEEDED:
        return f"Seed {one.seed} is {one.run['status']}. {one.run['reason']['sentence']}".strip()
    return f"Seed {one.seed} has no finite value of {asked.metric}."


def _judge(values: list[float], before: list[float], asked: Pipeline, look: int, looks: int) -> Finding:
    if not before:
        ending = "there is nothing to compare with" if is_of_request() else "these are its first"
        return Finding(True, f"There is no green run of {asked.baseline.branch} yet: {ending}.")
    found = comparing.compare(values, before, lower_is_better=asked.better == "lower")
    limit = comparing.threshold(look, looks, asked.alpha)
    spread = "" if found.in_deviations is None else f", {abs(found.in_deviations):.2f} standard deviations"
    middle = f"{asked.metric} is {figure(fmean(values))}, the baseline's {figure(fmean(before))}"
    side = "worse" if found.worse_by > 0 else "better"
    words = f"{middle}: {side} by {figure(abs(found.worse_by))}{spread}; p = {found.p:.4f}, red below {limit:.3f}."
    return Finding(found.p >= limit, words)


def _shown(value: float | None) -> str:
    return "none" if value is None else figure(value)


def _line(text: str) -> str:
    """Return others' words on one line, without what XML cannot hold."""
    return NO_XML.sub("\ufffd", safe(text))


def _cell(text: str) -> str:
    return _line(text).replace("|", r"\|")


def markdown(asked: Pipeline, trained: list[Trained], before: list[float], finding: Finding) -> str:
    cells = [(str(one.seed), one.run["id"], one.run["status"], _shown(one.value)) for one in trained]
    rows = [f"| {' | '.join(map(_cell, row))} |" for row in cells]
    head = f"### {'Green' if finding.is_green else 'Red'}: {_cell(asked.metric)}\n\n{_cell(finding.sentence)}\n"
    values = ", ".join(map(figure, before)) or "none"
    return "\n".join((head, "| seed | run | status | value |", "|---|---|---|---|", *rows, "", f"Baseline: {values}."))


def junit(asked: Pipeline, trained: list[Trained], finding: Finding) -> bytes:
    """Return the report as JUnit's XML: a case for each seed, and one for the comparison."""
    lost = [one for one in trained if one.value is None]
    suite = ElementTree.Element("testsuite", name="trainyard ci", tests=str(len(trained) + 1))
    for one in trained:
        case = ElementTree.SubElement(suite, "testcase", classname=_line(asked.spec), name=f"seed {one.seed} trains")
        if one in lost:
            ElementTree.SubElement(case, "failure", message=_line(_lost(one, asked)))
    case = ElementTree.SubElement(
        suite, "testcase", classname=_line(asked.spec), name=_line(f"{asked.metric} is not worse")
    )
    if not finding.is_green and not lost:
        ElementTree.SubElement(case, "failure", message=_line(finding.sentence))
    elif lost:
        ElementTree.SubElement(case, "skipped", message="not all seeds have a value")
    suite.set("failures", str(len(lost) or int(not finding.is_green)))
    written: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return written
