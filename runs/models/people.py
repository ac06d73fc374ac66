"""People, and their roles in projects."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.core.exceptions import ValidationError
from django.db import models

from runs.ids import new_id
from trainyard.formats.names import hidden_in, visible


class User(AbstractUser):
    """A person. Nobody has a password until they set one; the first way in is a one-time link."""

    def __str__(self) -> str:
        return self.get_full_name() or self.username

    def clean(self) -> None:
        """Refuse names with characters that nobody sees: another person could look the same."""
        super().clean()
        _refuse_hidden(self, "username", "first_name", "last_name", "email")


class Role(models.TextChoices):
    """What a member may do; each includes the one below it."""

    OWNER = "owner", "Owner"
    MAINTAINER = "maintainer", "Maintainer"
    MEMBER = "member", "Member"
    VIEWER = "viewer", "Viewer"

    @property
    def rank(self) -> int:
        return [Role.VIEWER, Role.MEMBER, Role.MAINTAINER, Role.OWNER].index(self)

    def includes(self, other: Role) -> bool:
        return self.rank >= other.rank


class Project(models.Model):
    """Owns jobs and runs; its members have roles."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    name = models.SlugField(max_length=60, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    members: models.ManyToManyField[User, Membership] = models.ManyToManyField(
        User, through="Membership", related_name="projects"
    )

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=12, choices=Role.choices)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("project", "user"), name="one_membership_per_project"),)

    def __str__(self) -> str:
        return f"{self.user} as {self.role} in {self.project}"


class Workspace(models.Model):
    """How one person looks at a project's charts: what they chose last, kept for the next time and the next machine."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="workspaces")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="workspaces")
    state = models.JSONField(default=dict)
    run_colours = models.JSONField(default=dict, blank=True)  # by run, where a comparison gave it another than its own
    saved_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("user", "project"), name="one_workspace_per_project"),)

    def __str__(self) -> str:
        return f"{self.user} in {self.project}"


class Invitation(models.Model):
    """A link by which somebody new joins a project. Only the digest of its secret is kept."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="invitations")
    email = models.EmailField(blank=True)
    role = models.CharField(max_length=12, choices=Role.choices, default=Role.MEMBER)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True)
    accepted_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"invitation to {self.project} for {self.email or 'whoever has the link'}"

    def clean(self) -> None:
        _refuse_hidden(self, "email")


def _refuse_hidden(row: models.Model, *fields: str) -> None:
    problems = {
        field: f"must have no control characters and no invisible ones, not {visible(value)}"
        for field in fields
        if hidden_in(value := getattr(row, field))
    }
    if problems:
        raise ValidationError(problems)
