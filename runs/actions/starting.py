"""When a run may start, as its spec says: what is refused, and what is written down beside the spec."""

from django.utils import timezone

from runs.models import Dependency, Project, Run, StartTerms
from runs.rights.access import Someone, visible_runs
from trainyard.spec import Problem, Spec, SpecError
from trainyard.spec.problems import show
from trainyard.spec.sections.starting import moment_of


def with_runs_before(actor: Someone, project: Project, spec: Spec) -> Spec:
    """Return the spec with the ids of the runs that end before it, of those that the person sees. Raises SpecError."""
    if not spec.after.runs:
        return spec
    seen, ids, problems = visible_runs(actor).filter(project=project).order_by("-number"), [], []
    for place, text in enumerate(spec.after.runs):
        run = seen.filter(pk=text).values_list("pk").first() or seen.filter(name=text).values_list("pk").first()
        if run is None:
            words = f"there is no run {show(text)} of project {project.name} that you can see"
            problems.append(Problem(f"after.runs.{place}", words))
        else:
            ids.append(run[0])
    if problems:
        raise SpecError(problems)
    return spec.model_copy(update={"after": spec.after.model_copy(update={"runs": list(dict.fromkeys(ids))})})


def deadline_problems(spec: Spec) -> list[Problem]:
    if not spec.deadline or moment_of(spec.deadline) > timezone.now():
        return []
    return [Problem("deadline", f"{spec.deadline} is in the past; accepted: a later time, or none")]


def array_tag(array: str) -> str:
    return f"array-{array}"


def keep_terms(run: Run, array: str = "") -> None:
    """Write down beside the spec what the run waits for, in the transaction of whoever calls. ``array``: its id.
    Raises SpecError where a run that ends before it was deleted meanwhile."""
    times = {name: moment_of(text) for name in ("not_before", "deadline") if (text := run.spec[name])}
    if array or times:
        StartTerms.objects.create(run=run, array=array, at_once=run.spec["array"]["at_once"] if array else 0, **times)
    if ids := run.spec["after"]["runs"]:
        names = dict(Run.objects.select_for_update().filter(pk__in=ids).values_list("pk", "name"))
        if gone := [one for one in ids if one not in names]:
            raise SpecError([Problem("after.runs", f"run {gone[0]} has just been deleted")])
        Dependency.objects.bulk_create(
            Dependency(run=run, other_id=one, name=names[one], must_succeed=run.spec["after"]["on"] == "ok")
            for one in ids
        )
