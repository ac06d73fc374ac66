"""The machines that an engine asked its system for."""

from django.db import models

from runs.causes.allocations import AllocationEnding
from runs.models.attempts import Attempt
from trainyard.contract.base import convert


class Allocation(models.Model):
    """A request for machines that an engine that brings nodes has made to its system, for one attempt.

    The rows say what is wanted and what was last seen there. The system is the truth: a round of the engine compares
    both, and may be repeated at any time.
    """

    class State(models.TextChoices):
        REQUESTED = "requested"  # the system may not know it yet
        PENDING = "pending"
        RUNNING = "running"
        OVER = "over"  # nothing of it is left there

    attempt = models.OneToOneField(Attempt, on_delete=models.CASCADE, related_name="allocation")
    state = models.CharField(max_length=12, choices=State.choices, default=State.REQUESTED)
    job = models.CharField(max_length=60, blank=True)  # the system's name for it
    reason = models.CharField(max_length=80, blank=True)  # why it is pending, by the system's word
    sentence = models.TextField(blank=True)  # why its nodes are not there yet
    problem = models.TextField(blank=True)  # why the system could not be asked last time
    hosts = models.JSONField(default=list, blank=True)
    ends_at = models.DateTimeField(null=True, blank=True)  # when the system will take the machines back
    ending = models.JSONField(null=True, blank=True)  # an AllocationEnding: see `known_ending`
    created_at = models.DateTimeField(auto_now_add=True)
    submitted_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    cancelled_at = models.DateTimeField(null=True, blank=True)  # when we gave the machines back
    over_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"machines of {self.attempt}"

    @property
    def known_ending(self) -> AllocationEnding | None:
        """The way the system ended it; None while it has not, or where we gave it back."""
        return None if self.ending is None else convert(self.ending, AllocationEnding)
