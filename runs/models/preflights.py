"""Preflights: checks of some nodes at one time, with why they were made and what they found."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from runs.models.attempts import Attempt
from runs.models.clusters import Cluster
from runs.models.people import User
from runs.values.checks import Check, CheckState
from runs.values.ids import new_id
from trainyard.contract.base import convert


class Preflight(models.Model):
    """The checks of some nodes of a cluster. Until it has ended the nodes are at it."""

    class Why(models.TextChoices):
        ASKED = "asked"
        PLACED = "placed"  # an attempt was placed on these nodes

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="preflights")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, null=True, blank=True, related_name="preflights")
    why = models.CharField(max_length=10, choices=Why.choices)
    asked_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    nodes = models.JSONField(default=list)  # ids
    collective = models.JSONField(default=list)  # ids of those over which a collective goes, in the order of its ranks
    results = models.JSONField(default=list)  # of Check: see `checks`
    created_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at",)
        indexes = (models.Index(fields=("cluster", "-created_at"), name="preflight_by_cluster"),)
        constraints = (
            models.UniqueConstraint(
                fields=("cluster",), condition=models.Q(ended_at=None), name="one_open_preflight_per_cluster"
            ),
        )

    def __str__(self) -> str:
        return f"preflight {self.pk} of {self.cluster_id}"

    @property
    def checks(self) -> list[Check]:
        return convert(self.results, list[Check])

    @property
    def state(self) -> str:
        """``running``, or the worst state of its checks."""
        if self.ended_at is None:
            return "running"
        states = {check.state for check in self.checks}
        return next((str(one) for one in (CheckState.FAIL, CheckState.WARN) if one in states), str(CheckState.OK))
