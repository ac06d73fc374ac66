"""Clusters, nodes, and the tokens that let machines in. A node's key is never shown."""

from __future__ import annotations

from django.contrib import admin

from runs.admin.base import Editable, Written
from runs.models import Cluster, HeldSlot, JoinToken, Node, Preflight


@admin.register(Cluster)
class ClusterAdmin(Editable):
    list_display = ("name", "engine", "region", "created_at")
    search_fields = ("name",)
    filter_horizontal = ("projects",)


@admin.register(Node)
class NodeAdmin(Written):
    list_display = ("name", "cluster", "address", "slots", "is_draining", "seen_at", "version", "removed_at")
    list_filter = ("cluster", "is_draining")
    search_fields = ("name", "id", "address")
    exclude = ("key",)


@admin.register(JoinToken)
class JoinTokenAdmin(Written):
    list_display = ("cluster", "created_by", "created_at", "expires_at", "used_at", "node")
    list_filter = ("cluster",)
    exclude = ("digest",)


@admin.register(HeldSlot)
class HeldSlotAdmin(Written):
    list_display = ("node", "index", "placement")
    list_filter = ("node",)


@admin.register(Preflight)
class PreflightAdmin(Written):
    list_display = ("cluster", "why", "attempt", "asked_by", "created_at", "ended_at")
    list_filter = ("cluster", "why")
