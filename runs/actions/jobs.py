"""Saved specs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max

from runs.models import Job, Project, User
from runs.rights.access import Permission, project_by_name, require
from runs.values.refused import Refused
from trainyard.spec import parse_spec


def save_job(*, actor: User, document: Any) -> Job:
    """Save the spec under its own name; under a name that exists it becomes the next version. Raises SpecError."""
    spec = parse_spec(document).resolved()
    project = project_by_name(actor, spec["project"])
    require(actor, project, Permission.JOBS_EDIT)
    with transaction.atomic():
        Project.objects.select_for_update().get(pk=project.pk)  # two people saving at once get two versions
        earlier = Job.objects.filter(project=project, name=spec["name"])
        version = (earlier.aggregate(newest=Max("version"))["newest"] or 0) + 1
        return Job.objects.create(project=project, name=spec["name"], version=version, spec=spec, created_by=actor)


def delete_job(*, actor: User, job: Job) -> None:
    """Forget this job with all its versions; runs that came from it keep their own spec."""
    require(actor, job.project, Permission.JOBS_EDIT)
    Job.objects.filter(project=job.project, name=job.name).delete()


@contextmanager
def taking_name(sentence: str) -> Iterator[None]:
    """Return a transaction that takes a name. Raises Refused with the sentence where it is taken."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        raise Refused("name-taken", sentence) from error
