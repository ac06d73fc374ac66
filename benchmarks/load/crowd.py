"""Rows as years of use leave them, written past the product's rules: many runs, and what stands beside them.

The newest runs are live, tags are common (half of all runs), scarce (every hundredth) and rare (three), and one person
is in all projects of ten, another in the one project that has a hundredth of the runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.db.models import Max
from django.utils import timezone

from trainyard.contract.base import JsonObject, SpecDocument

if TYPE_CHECKING:
    from django.db.models import Model

    from runs.models import Cluster, Job, Node, Project, Run, User

NUM_PROJECTS = 10
BATCH = 2_000
ENDED = ("SUCCEEDED", "SUCCEEDED", "SUCCEEDED", "FAILED", "CANCELLED")
NUM_RUNNING, NUM_QUEUED = 40, 500


@dataclass
class Crowd:
    admin: User
    member: User  # of all the projects
    guest: User  # of the smallest project
    run: Run  # with a long history
    dataset_id: str
    job_id: str


def fill(num_runs: int, *, name: str = "crowd") -> Crowd:
    """Write ``num_runs`` runs and, in proportion up to some hundreds or thousands, everything else that is listed."""
    from runs.models import Cluster, Run, User

    admin = User.objects.create(username=f"{name}-admin", is_superuser=True, is_staff=True)
    users = [User(username=f"{name}-{number:05}") for number in range(max(10, num_runs // 200))]
    people = User.objects.bulk_create(users)
    projects = _projects(name, people)
    cluster = Cluster.objects.create(name=f"{name}-cluster")
    nodes = _nodes(cluster, name, 20)
    jobs = _jobs(name, projects, people, max(10, num_runs // 20))
    dataset_id = _datasets(name, projects, cluster, max(10, num_runs // 100))
    _tokens(people[0], 20)
    with given_times(Run):
        write(_runs(num_runs, projects, cluster, jobs, people))
    _history(nodes, projects)
    return Crowd(admin, people[0], people[1], _long_history(projects[0]), dataset_id, jobs[0].pk)


def fill_queue(count: int) -> None:
    """Let ``count`` runs of their own project and cluster wait behind one that needs more than there is."""
    from runs.models import Cluster, Project, Run
    from runs.models.runs import size_of

    project, cluster = Project.objects.create(name="queue"), Cluster.objects.create(name="queue")
    for node in _nodes(cluster, "queue", 2):
        node.seen_at = timezone.now() if node.name.endswith("0") else None
        node.save()
    wanted = spec("waits", resources={"nodes": 2, "processes_per_node": 8})
    first = _free_number()
    write(
        Run(project=project, cluster=cluster, name="waits", spec=wanted, number=first + place, **size_of(wanted))
        for place in range(count)
    )


@contextmanager
def given_times(*models: type[Model]) -> Iterator[None]:
    """Let rows be written with another age than none."""
    fields: list[Any] = [model._meta.get_field("created_at") for model in models]
    for field in fields:
        field.auto_now_add = False
    try:
        yield
    finally:
        for field in fields:
            field.auto_now_add = True


def write(rows: Iterator[Model]) -> None:
    while batch := list(islice(rows, BATCH)):
        type(batch[0])._default_manager.bulk_create(batch)


def _projects(name: str, people: list[User]) -> list[Project]:
    from runs.models import Membership, Project

    projects = Project.objects.bulk_create(Project(name=f"{name}-{number}") for number in range(NUM_PROJECTS))
    rows = [Membership(project=project, user=people[0], role="member") for project in projects]
    rows += [Membership(project=projects[0], user=person, role="viewer") for person in people[2:]]
    rows.append(Membership(project=projects[-1], user=people[1], role="member"))
    Membership.objects.bulk_create(rows)
    return projects


def _nodes(cluster: Cluster, name: str, count: int) -> list[Node]:
    from runs.models import Node

    inventory = {"hostname": "host", "cpu": {"model": "a processor", "count": 64}, "memory_bytes": 2**38, "gpus": []}
    rows = (
        Node(cluster=cluster, name=f"{name}-{number:05}", key="0" * 64, slots=8, inventory=inventory)
        for number in range(count)
    )
    return Node.objects.bulk_create(rows)


def _jobs(name: str, projects: list[Project], people: list[User], count: int) -> list[Job]:
    from runs.models import Job

    rows = []
    for number in range(count):
        title, version = f"{name}-job-{number // 5:05}", number % 5 + 1
        project = projects[number // 5 % NUM_PROJECTS]
        rows.append(Job(project=project, name=title, version=version, spec=spec(title), created_by=people[0]))
    return Job.objects.bulk_create(rows, batch_size=BATCH)


def _datasets(name: str, projects: list[Project], cluster: Cluster, count: int) -> str:
    from runs.models import Dataset

    rows = [
        Dataset(
            project=projects[number % NUM_PROJECTS], cluster=cluster, name=f"{name}-data-{number:05}", source="csv",
            location=f"/data/{number}.csv", facts={"num_rows": number},
        )
        for number in range(count)
    ]  # fmt: skip
    return Dataset.objects.bulk_create(rows, batch_size=BATCH)[0].pk


def _tokens(person: User, count: int) -> None:
    from runs.models import Token
    from runs.values.ids import new_id

    Token.objects.bulk_create(
        Token(user=person, name=f"token {number}", digest=new_id() * 3) for number in range(count)
    )


def spec(name: str, **more: Any) -> SpecDocument:
    """A spec of usual length."""
    document: JsonObject = {
        "name": name,
        "project": "default",
        "cluster": "local",
        "resources": {"nodes": 1, "processes_per_node": 2, "accelerator": "auto"},
        "task": {
            "recipe": "language-model",
            "model": {"layers": 4, "width": 128, "heads": 4, "context": 128},
            "data": {"source": "python-stdlib"},
            "environment": {},
        },
        "parallel": {"data": "auto", "shard": 1, "tensor": 1, "pipeline": {"stages": 1, "schedule": "1f1b"}},
        "train": {"steps": 300, "batch_size": 32, "optimizer": "adamw", "learning_rate": 0.001, "seed": 0},
        "checkpoint": {"every_steps": 100, "keep": 3},
        **more,
    }
    return SpecDocument(document)


def _free_number() -> int:
    from runs.models import Run

    return int(Run.objects.aggregate(newest=Max("number"))["newest"] or 0) + 1


def _runs(count: int, projects: list[Project], cluster: Cluster, jobs: list[Job], people: list[User]) -> Iterator[Run]:
    from runs.models import Run

    now, first = timezone.now(), _free_number()
    for number in range(count):
        age = count - number
        name = f"train-{number * 7919 % count:06}"
        status = "RUNNING" if age <= NUM_RUNNING else "QUEUED" if age <= NUM_QUEUED else ENDED[number % len(ENDED)]
        at = now - timedelta(seconds=60 * age)
        is_over = status in ENDED
        run = Run(
            project=projects[-1] if number % 100 == 0 else projects[number % (NUM_PROJECTS - 1)],
            cluster=cluster,
            job=jobs[number % len(jobs)],
            name=name,
            number=first + number,
            spec=spec(name, train={**spec(name)["train"], "learning_rate": 10.0 ** -(number % 5)}),
            config={"width": 64 * (number % 7), "seed": number},
            tags=_tags(number, count),
            estimate={"ranks": [{"rank": rank, "memory_bytes": 2**30, "parts": [1.0] * 20} for rank in range(4)]},
            status=status,
            reason_code="crowd",
            reason_sentence="All ranks ended with 0." if is_over else "Waiting its turn.",
            created_by=people[number % 5],
            started_at=None if status == "QUEUED" else at,
            ended_at=at + timedelta(minutes=30) if is_over else None,
            archived_at=at + timedelta(days=1) if is_over and number % 4 == 1 else None,
        )
        run.created_at = at
        yield run


def _tags(number: int, count: int) -> list[str]:
    tags = ["baseline" if number % 2 else "ablation"]
    if number % 100 == 1:
        tags.append("scarce")
    if number in (5, count // 2, count - 5):
        tags.append("rare")
    return tags


def _history(nodes: list[Node], projects: list[Project]) -> None:
    """An attempt on a node and two events for each run, and what ingest knows of it."""
    from runs.models import Attempt, Event, Placement, Run
    from runs.records.metrics.models import Series, Telemetry

    ids = list(Run.objects.filter(project__in=projects).order_by("pk").values_list("pk", "status"))
    fields = {"number": 1, "fence": 1, "world_size": 2}
    now = timezone.now()
    placed = [(run_id, status) for run_id, status in ids if status != "QUEUED"]
    write(Attempt(run_id=run_id, ended_at=None if status == "RUNNING" else now, **fields) for run_id, status in placed)
    attempts = Attempt.objects.filter(run__project__in=projects).order_by("pk").values_list("pk", flat=True)
    write(
        Placement(attempt_id=pk, node=nodes[place % len(nodes)], node_rank=0, first_rank=0, num_ranks=2)
        for place, pk in enumerate(attempts)
    )
    write(
        Event(run_id=run_id, code=code, sentence=f"It was {code}.")
        for run_id, _ in ids
        for code in ("submitted", "ended")
    )
    write(
        Series(
            run_id=run_id, name="train/loss", count=300, last_step=300, last=2.5, min=number * 7919 % 1_000 / 500, max=9
        )
        for number, (run_id, _) in enumerate(placed)
    )
    write(Telemetry(run_id=run_id, cursor=1, step=300, median_step_s=0.1, num_points=300) for run_id, _ in placed)


def _long_history(project: Project) -> Run:
    from runs.models import Event, Run

    run = Run.objects.filter(project=project).order_by("created_at")[0]
    write(Event(run=run, code="noted", sentence=f"Line {number}.") for number in range(2_000))
    return run
