"""Notices: rules that say who gets which and where, and each notice with what came of sending it."""

from typing import Any

from django.db import models
from django.db.models import Q, TextChoices
from django.db.models.signals import post_save
from django.dispatch import receiver
from django.utils import timezone

from runs.models.attempts import Event
from runs.models.clusters import Cluster
from runs.models.people import Project, User
from runs.models.runs import Run
from runs.values.ids import new_id
from runs.values.status import Status


class Where(TextChoices):
    PAGE = "page", "The bell"
    EMAIL = "email", "E-mail"
    WEBHOOK = "webhook", "Webhook"
    SLACK = "slack", "Slack"
    TEAMS = "teams", "Microsoft Teams"
    DISCORD = "discord", "Discord"
    PAGERDUTY = "pagerduty", "PagerDuty"
    BROWSER = "browser", "Browser"


OF_PERSONS = (Where.PAGE, Where.BROWSER)  # no project has these, and no form asks for their address


class NoticeKind(TextChoices):
    FAILED = "failed", "A run failed for good"
    LOST = "lost", "A run is lost: its nodes are out of contact"
    RESTARTS = "restarts", "A run was restarted several times within an hour"
    STALLED = "stalled", "A run stands still"
    STRAGGLER = "straggler", "A rank slows the others down"
    IDLE = "idle", "A run hardly uses its accelerators"
    WAITS = "waits", "A run waits for many minutes"
    METRIC = "metric", "A rule on a metric was broken"
    LOG = "log", "A rule about log lines found one"
    ALERT = "alert", "A script raised an alert, from 1 (info), 2 (warn) or 3 (error)"
    DONE = "done", "A run succeeded"
    SWEEP = "sweep", "A sweep ended"
    LIMITS = "limits", "A limit, a budget or the storage of a project is used to 80 %"
    NODE = "node", "A node is out of contact"
    DISK = "disk", "The disk of a node is nearly full"
    PREFLIGHT = "preflight", "A node failed its checks"


K = NoticeKind
NUMBERS = {K.RESTARTS: 3, K.WAITS: 30, K.ALERT: 1}  # at first: restarts within an hour, minutes, the least level
OF_RUNS = (K.FAILED, K.LOST, K.RESTARTS, K.STALLED, K.IDLE, K.METRIC, K.LOG, K.ALERT, K.SWEEP)
OF_BELLS = {kind: NUMBERS.get(kind, 0) for kind in OF_RUNS}  # at first
OF_EVENTS = {"restarting": K.RESTARTS, "hang-found": K.STALLED, "straggler": K.STRAGGLER, "idle": K.IDLE,
             "metric-alarm": K.METRIC, "alert": K.ALERT}  # fmt: skip
ENDS = {K.STALLED: "hang-over", K.IDLE: "idle-over"}  # codes of the events that end what a notice is of
OVER = "over/"  # a cause that begins so is the end of the rest of it
INFO, WARNING, ERROR = 1, 2, 3  # levels
ALERT_LEVELS = {"info": INFO, "warn": WARNING, "warning": WARNING, "error": ERROR}
LEVELS = {**dict.fromkeys((K.FAILED, K.LOST, K.STALLED, K.NODE, K.DISK), ERROR),
          **dict.fromkeys((K.WAITS, K.DONE, K.SWEEP), INFO)}  # fmt: skip  # of an alert its own; else WARNING


class NewEvent(models.Model):
    """An event of which notices are still to be made. It is written with the event, so that none is missed."""

    event = models.OneToOneField(Event, on_delete=models.CASCADE, primary_key=True, related_name="+")

    def __str__(self) -> str:
        return f"new: {self.event_id}"


@receiver(post_save, sender=Event, dispatch_uid="new-event")
def keep_new(instance: Event, created: bool, **_: Any) -> None:
    if created and (kind_of(instance) or instance.code in ENDS.values()):
        NewEvent.objects.create(event=instance)


def kind_of(event: Event) -> NoticeKind | None:
    """Return the kind of notice that the event may be; None for most."""
    if event.code == "log-rule":
        return None if event.data.get("action") == "label" else K.LOG
    by_status = {Status.FAILED: K.FAILED, Status.LOST: K.LOST, Status.SUCCEEDED: K.DONE}
    return by_status.get(event.data.get("to", "")) or OF_EVENTS.get(event.code)


class NoticeRule(models.Model):
    """Kinds of notices that one place gets, of a person or of a project."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    owner = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="notice_rules")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, related_name="notice_rules")
    where = models.CharField(max_length=10)
    kinds = models.JSONField(default=dict)  # each with its number: see NUMBERS
    only_mine = models.BooleanField(default=False)  # of runs and sweeps those that the person launched
    every = models.CharField(max_length=4, blank=True, default="", db_default="")  # "hour", "day": gathered until then
    locked = models.TextField(blank=True)  # the destination, sealed: see runs.notices.destinations
    shown = models.CharField(max_length=255, blank=True)  # what may be shown of it
    created_at = models.DateTimeField(default=timezone.now)

    key = ""  # by which a webhook's messages are signed, where it was just made: no column, it is shown this once

    class Meta:
        ordering = ("created_at",)
        constraints = (
            models.UniqueConstraint(fields=("owner",), condition=Q(where="page"), name="one_bell_per_person"),
        )

    def __str__(self) -> str:
        return f"{Where(self.where).label} of {self.owner or self.project}"


class Following(models.Model):
    """A person's word about one run, which goes before their rules: everything of it, or nothing."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="followings")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="followings")
    is_muted = models.BooleanField(default=False)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("user", "run"), name="one_word_per_run"),)

    def __str__(self) -> str:
        return f"{self.user} {'mutes' if self.is_muted else 'follows'} {self.run_id}"


class Notice(models.Model):
    """One message for one cause, by one rule. Those of a rule are sent in the order of their keys."""

    MAX_CAUSE = 300

    rule = models.ForeignKey(NoticeRule, on_delete=models.CASCADE, related_name="notices")
    cause = models.CharField(max_length=MAX_CAUSE)  # begins with the kind; see runs.notices.making
    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, related_name="+")
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, null=True, related_name="+")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, null=True, related_name="+")
    what = models.TextField()
    place = models.CharField(max_length=300)
    since = models.DateTimeField()
    path = models.CharField(max_length=200)  # of the page to open
    level = models.PositiveSmallIntegerField(default=WARNING, db_default=WARNING)
    count = models.PositiveIntegerField(default=1)  # how often it came, or how many runs it is about
    state = models.CharField(max_length=8, default="waiting")  # or held, sent, failed; on the page unread, read
    batch = models.BigIntegerField(null=True)  # the first of those that were held and are one message now
    tries = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField(default=timezone.now)  # when it is tried again, or no longer held
    problem = models.TextField(blank=True)

    class Meta:
        ordering = ("-id",)
        constraints = (models.UniqueConstraint(fields=("rule", "cause"), name="one_notice_per_cause"),)
        indexes = (models.Index(fields=("state", "rule", "id"), name="notice_by_state"),)

    def __str__(self) -> str:
        return self.what

    @property
    def kind(self) -> str:
        return self.cause.partition("/")[0]
