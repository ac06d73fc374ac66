"""People, and their roles in projects."""

from typing import TYPE_CHECKING

from django.contrib.auth.models import AbstractUser, Group
from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.db import models
from django.db.models import Q

from runs.models.base import Dated, Identified
from runs.values.columns import AlwaysTyped, LimitNotice, QuietHours, Typed
from runs.values.ids import new_id
from trainyard.formats.names import hidden_in, visible

if TYPE_CHECKING:
    from runs.models.access import Token


class User(AbstractUser):
    """A person, or a project's service account. Nobody has a password until they set one; the first way in is a link
    that works once. A service account has tokens alone: nothing signs it in."""

    service_of = models.ForeignKey(
        "Project", on_delete=models.CASCADE, null=True, blank=True, editable=False, related_name="service_accounts"
    )

    # When they opened home the last time, and before they were away: what changed since then is shown there.
    home_seen_at = models.DateTimeField(null=True, blank=True, editable=False)
    home_left_at = models.DateTimeField(null=True, blank=True, editable=False)
    quiet_hours = models.JSONField(null=True, blank=True, editable=False)
    quiet = Typed("quiet_hours", QuietHours)

    # The token by which they act in this request; None in a session. No column: runs.rights.access sets and reads it.
    token: "Token | None" = None
    # When they last proved who they are, in Unix time, in a browser's session; None where none asks. No column either.
    proved_at: float | None = None

    @property
    def is_service(self) -> bool:
        return self.service_of_id is not None

    def __str__(self) -> str:
        return self.get_full_name() or self.username

    def clean(self) -> None:
        """Refuse names with characters that nobody sees: another person could look the same."""
        super().clean()
        _refuse_hidden(self, "username", "first_name", "last_name", "email")
        others = User.objects.filter(username__iexact=self.username).exclude(pk=self.pk)
        if self._state.adding and others.exists():  # "Owner" beside "owner"
            raise ValidationError({"username": f"There is already a person named {others[0].username}."})


class Role(models.TextChoices):
    """The built-in roles of a project, the strongest first. runs.rights.access says what each may do."""

    OWNER = "owner", "Owner"
    MAINTAINER = "maintainer", "Maintainer"
    MEMBER = "member", "Member"
    AUDITOR = "auditor", "Auditor"
    VIEWER = "viewer", "Viewer"


class Project(Identified):
    """Owns jobs and runs; its members have roles."""

    name = models.SlugField(max_length=60, unique=True)
    second_factor_from = models.CharField(max_length=12, blank=True)  # the weakest role that needs one; "": nobody
    # Where its data may lie, separated by commas as in Cluster.region; empty: anywhere.
    regions = models.CharField(max_length=300, blank=True)
    quota_bytes = models.PositiveBigIntegerField(null=True, blank=True)  # of all that it stores; None: no limit
    # Its part of the clusters that it may use: see docs/queue_shares.md. None: no limit.
    weight = models.FloatField(default=1.0)
    share_group = models.CharField(max_length=60, blank=True, validators=[validate_slug])  # "": one by itself
    group_weight = models.FloatField(null=True, blank=True)  # the same in all projects of the group
    guaranteed_slots = models.PositiveIntegerField(default=0)
    slots = models.PositiveIntegerField(null=True, blank=True)  # at once, over all clusters
    runs_at_once = models.PositiveIntegerField(null=True, blank=True)
    slots_per_person = models.PositiveIntegerField(null=True, blank=True)  # at once
    slot_hours_month = models.FloatField(null=True, blank=True)
    budget_month = models.FloatField(null=True, blank=True)  # by the clusters' prices of a slot-hour
    max_run_hours = models.FloatField(null=True, blank=True)  # of limits.time in specs
    max_priority = models.PositiveSmallIntegerField(default=100)  # of runs of members; maintainers go higher
    limit_notices = models.JSONField(default=dict, editable=False)  # by the field of a limit: see `notices`
    encrypts_files = models.BooleanField(default=False)  # and logs and media, with its storage keys
    # Days after the end of a run; None: for ever. See runs.privacy.retention.
    keep_logs_days = models.PositiveIntegerField(null=True, blank=True)
    keep_metrics_days = models.PositiveIntegerField(null=True, blank=True)
    keep_media_days = models.PositiveIntegerField(null=True, blank=True)
    keep_outputs_days = models.PositiveIntegerField(null=True, blank=True)
    keep_checkpoints_days = models.PositiveIntegerField(null=True, blank=True)
    keep_runs_days = models.PositiveIntegerField(null=True, blank=True)
    members: "models.ManyToManyField[User, Membership]" = models.ManyToManyField(
        User, through="Membership", related_name="projects"
    )

    notices = AlwaysTyped("limit_notices", dict[str, LimitNotice])  # the last one of each of its limits

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def region_list(self) -> list[str]:
        return [one for one in self.regions.split(",") if one]

    def may_lie_in(self, region: str) -> bool:
        """Return whether its data may lie in the region. A place that does not say where it is counts as elsewhere."""
        return not self.regions or region in self.region_list

    def why_not_in(self, place: str, region: str) -> str:
        """Say why nothing of the project may lie at the place; empty where it may."""
        if self.may_lie_in(region):
            return ""
        where = f"is in {region}" if region else "does not say in which region it is"
        return f"Project {self.name} keeps its data in {' or '.join(self.region_list)}, and {place} {where}."


class CustomRole(Identified):
    """A role that a project made for itself: permissions that are added to a member's built-in role."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="custom_roles")
    name = models.CharField(max_length=40, validators=[validate_slug])
    permissions = models.JSONField(default=list)  # values of runs.rights.access.Permission

    class Meta:
        ordering = ("name",)
        constraints = (models.UniqueConstraint(fields=("project", "name"), name="one_custom_role_per_name"),)

    def __str__(self) -> str:
        return f"{self.name} of {self.project}"


class Membership(Dated):
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=12, choices=Role.choices)
    custom_role = models.ForeignKey(
        CustomRole, on_delete=models.SET_NULL, null=True, blank=True, related_name="memberships"
    )

    class Meta:
        constraints = (models.UniqueConstraint(fields=("project", "user"), name="one_membership_per_project"),)

    def __str__(self) -> str:
        return f"{self.user} as {self.role} in {self.project}"

    def clean(self) -> None:
        if self.custom_role is not None and self.custom_role.project_id != self.project_id:
            raise ValidationError({"custom_role": f"{self.custom_role} is not of this project"})


class GroupRole(Dated):
    """The role of everybody in a group: in one project, or in every project there is and will be."""

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="project_roles")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, blank=True, related_name="group_roles")
    role = models.CharField(max_length=12, choices=Role.choices)
    custom_role = models.ForeignKey(
        CustomRole, on_delete=models.SET_NULL, null=True, blank=True, related_name="group_roles"
    )
    # The entry of the sign-in settings that gave it, "PROVIDER:GROUP"; "": somebody did, by hand.
    origin = models.CharField(max_length=141, blank=True, editable=False)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("group", "project"), name="one_role_per_group_and_project"),
            models.UniqueConstraint(fields=("group",), condition=Q(project=None), name="one_role_per_group_everywhere"),
        )

    def __str__(self) -> str:
        return f"{self.group} as {self.role} in {self.project or 'every project'}"

    def clean(self) -> None:
        if self.custom_role is not None and self.custom_role.project_id != self.project_id:
            raise ValidationError({"custom_role": f"{self.custom_role} is not of this project"})


class ClusterRole(Dated):
    """The role of everybody in a group on a cluster, or on all of them."""

    class Kind(models.TextChoices):
        RUNNER = "runner", "Runner"  # runs on it, from any project in which they launch
        OPERATOR = "operator", "Operator"  # also changes it and its nodes

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="cluster_roles")
    cluster = models.ForeignKey(
        "runs.Cluster", on_delete=models.CASCADE, null=True, blank=True, related_name="group_roles"
    )
    role = models.CharField(max_length=12, choices=Kind.choices)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("group", "cluster"), name="one_role_per_group_and_cluster"),
            models.UniqueConstraint(
                fields=("group",), condition=Q(cluster=None), name="one_role_per_group_on_all_clusters"
            ),
        )

    def __str__(self) -> str:
        return f"{self.group} as {self.role} of {self.cluster or 'every cluster'}"


class Workspace(models.Model):
    """One person's view of a project's charts: what they chose last, kept for the next time and the next machine.

    Without a person it is the layout that the project has for those who have none of their own.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="workspaces", null=True, blank=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="workspaces")
    state = models.JSONField(default=dict)
    run_colours = models.JSONField(default=dict, blank=True)  # by run, where a comparison gave it another than its own
    saved_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("user", "project"), name="one_workspace_per_project"),
            models.UniqueConstraint(fields=("project",), condition=Q(user=None), name="one_layout_per_project"),
        )

    def __str__(self) -> str:
        return f"{self.user or 'everybody'} in {self.project}"


class SavedView(models.Model):
    """A table as somebody left it, under a name: the query of its address. It is one person's, or a project's."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    owner = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="views")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, related_name="views")
    name = models.CharField(max_length=60)
    query = models.TextField()
    is_default = models.BooleanField(default=False)  # what the table shows without a query; a person's own comes first
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    saved_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(owner=None, project__isnull=False) | Q(owner__isnull=False, project=None),
                name="view_of_one",
            ),
            models.UniqueConstraint(fields=("owner", "name"), name="one_view_of_a_name_each"),
            models.UniqueConstraint(fields=("project", "name"), name="one_view_of_a_name_in_project"),
        )

    def __str__(self) -> str:
        return f"{self.name} of {self.owner or self.project}"


class Invitation(Identified):
    """A link by which somebody new joins a project. Only the digest of its secret is kept."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="invitations")
    email = models.EmailField(blank=True)
    role = models.CharField(max_length=12, choices=Role.choices, default=Role.MEMBER)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    by_token = models.ForeignKey("runs.Token", on_delete=models.CASCADE, null=True, blank=True, related_name="+")
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
