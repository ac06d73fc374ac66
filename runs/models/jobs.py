"""Jobs that can be launched: saved specs, the code they ship, and experiments that MLflow's clients make."""

from typing import TYPE_CHECKING

from django.db import models

from runs.models.base import Dated, Identified
from runs.models.indexes import ListIndex
from runs.models.people import Project, User

if TYPE_CHECKING:
    from runs.models.runs import Run


class JobQuerySet(models.QuerySet["Job"]):
    def newest(self) -> "JobQuerySet":
        """The last version of each."""
        others = Job.objects.filter(project=models.OuterRef("project"), name=models.OuterRef("name"))
        return self.filter(~models.Exists(others.filter(version__gt=models.OuterRef("version"))))


class Job(Identified):
    """A saved, named spec. Saving it again under the same name makes the next version; old versions stay."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="jobs")
    name = models.CharField(max_length=120)
    version = models.PositiveIntegerField(default=1)
    spec = models.JSONField()
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")

    objects = JobQuerySet.as_manager()

    class Meta:
        ordering = ("name", "-version")
        constraints = (models.UniqueConstraint(fields=("project", "name", "version"), name="one_version_per_job"),)
        indexes = (ListIndex(fields=("name", "-version"), beside=("project", "id"), name="job_by_name"),)

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"


class CodeBundle(Dated):
    """A packed folder of a user's code, named by the SHA-256 of its bytes and stored under the home."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="bundles")
    sha256 = models.CharField(max_length=64)
    size_bytes = models.PositiveIntegerField()
    files = models.JSONField(default=list)  # the paths inside it, so that a script can be checked without unpacking
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")

    class Meta:
        constraints = (models.UniqueConstraint(fields=("project", "sha256"), name="one_bundle_per_digest"),)

    def __str__(self) -> str:
        return self.sha256[:12]


class RunCode(models.Model):
    """The commit of a run from Git, and the bundle that the server made of it: whatever the branch does afterwards,
    attempts of the run have the same files."""

    run = models.OneToOneField("runs.Run", on_delete=models.CASCADE, primary_key=True, related_name="code")
    sha256 = models.CharField(max_length=64)  # of the bundle
    url = models.CharField(max_length=1_000)
    commit = models.CharField(max_length=64)
    branch = models.CharField(max_length=250, blank=True)  # empty: a tag or the commit itself was asked for
    path = models.CharField(max_length=500, blank=True)
    subject = models.CharField(max_length=300, blank=True)
    author = models.CharField(max_length=200, blank=True)
    authored_at = models.DateTimeField(null=True)
    previous = models.CharField(max_length=64, blank=True)  # commit of the project's last run of this repository
    remarks = models.JSONField(default=list, blank=True)  # what is not as it would be in a checkout
    fetch_s = models.FloatField(default=0)

    class Meta:
        indexes = (models.Index(fields=("commit",), name="code_by_commit"),)

    def __str__(self) -> str:
        return f"{self.url}@{self.commit[:12]}"


class GitKey(Identified):
    """A key to a project's repositories at one place: a token (https) or a private key (ssh), locked with the server's
    secret. Nobody reads it again."""

    class Kind(models.TextChoices):
        TOKEN = "token"
        SSH = "ssh"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="git_keys")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    place = models.CharField(max_length=500)  # host, or host/team, or host/team/repository: what lies under it
    user = models.CharField(max_length=100, blank=True)  # that goes with a token
    locked = models.TextField(editable=False)
    host_keys = models.TextField(blank=True)  # of ssh: as they were given, or seen first
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    used_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("place", "kind")
        constraints = (models.UniqueConstraint(fields=("project", "kind", "place"), name="one_git_key_per_place"),)

    def __str__(self) -> str:
        return f"{self.kind} for {self.place}"


def bundle_of(run: "Run") -> str:
    """Return the digest of the code that every attempt of the run has; empty where it has none, as a recipe."""
    code = run.spec.get("task", {}).get("code")
    if not isinstance(code, dict):
        return ""
    if "sha256" in code:
        return str(code["sha256"])
    return RunCode.objects.filter(run=run).values_list("sha256", flat=True).first() or ""


class Experiment(Identified):
    """Its runs are those of the project whose group has its name."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="experiments")
    name = models.CharField(max_length=500)
    tags = models.JSONField(default=dict, blank=True)
    changed_at = models.DateTimeField(auto_now=True)
    archived_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("name",)
        constraints = (models.UniqueConstraint(fields=("project", "name"), name="one_experiment_per_name"),)

    def __str__(self) -> str:
        return self.name
