"""Rights of groups of people, and the roles that projects made for themselves."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin
from django.contrib.auth.models import Group
from django.http import HttpRequest
from unfold.admin import ModelAdmin, TabularInline

from runs.admin.base import ROWS, Editable, Granting
from runs.models import ClusterRole, CustomRole, GroupRole
from runs.rights.access import IN_PROJECTS, Permission

admin.site.unregister(Group)


class GroupRoleInline(TabularInline):  # type: ignore[misc]
    model = GroupRole
    extra = 0


class ClusterRoleInline(TabularInline):  # type: ignore[misc]
    model = ClusterRole
    extra = 0


@admin.register(Group)
class PeopleGroupAdmin(Granting, GroupAdmin, ModelAdmin):  # type: ignore[misc]
    list_per_page = ROWS
    inlines = (GroupRoleInline, ClusterRoleInline)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Only administrators give Django's permissions: whoever may edit groups is not thereby one."""
        found = super().get_readonly_fields(request, obj)
        return found if getattr(request.user, "is_superuser", False) else (*found, "permissions")


@admin.register(GroupRole)
class GroupRoleAdmin(Granting, Editable):
    list_display = ("group", "project", "role", "custom_role", "created_at")
    list_filter = ("role", "project")
    search_fields = ("group__name", "project__name")


@admin.register(ClusterRole)
class ClusterRoleAdmin(Granting, Editable):
    list_display = ("group", "cluster", "role", "created_at")
    list_filter = ("role", "cluster")
    search_fields = ("group__name", "cluster__name")


class CustomRoleForm(forms.ModelForm):  # type: ignore[type-arg]
    """Takes the permissions of projects alone, as the page of a project and REST do."""

    permissions = forms.MultipleChoiceField(
        choices=[(one.value, one.value) for one in Permission if one in IN_PROJECTS]
    )

    class Meta:
        model = CustomRole
        fields = ("project", "name", "permissions")


@admin.register(CustomRole)
class CustomRoleAdmin(Granting, Editable):
    form = CustomRoleForm
    list_display = ("name", "project", "permissions", "created_at")
    list_filter = ("project",)
    search_fields = ("name", "project__name")
