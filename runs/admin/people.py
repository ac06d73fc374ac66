"""People, projects and what opens doors. Digests of secrets are never shown."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group
from unfold.admin import ModelAdmin, TabularInline
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from runs.admin.base import Editable, Granting, Written
from runs.models import IdempotencyKey, Invitation, Membership, Project, SignInLink, Token, User, Workspace

admin.site.unregister(Group)  # roles are per project


@admin.register(User)
class PersonAdmin(Granting, UserAdmin, ModelAdmin):  # type: ignore[misc, type-arg]
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "email", "is_active", "is_staff", "is_superuser", "last_login")
    list_filter = ("is_active", "is_staff", "is_superuser")


class MembershipInline(TabularInline):  # type: ignore[misc]
    model = Membership
    extra = 0
    autocomplete_fields = ("user",)


@admin.register(Project)
class ProjectAdmin(Granting, Editable):
    list_display = ("name", "id", "created_at")
    search_fields = ("name", "id")
    inlines = (MembershipInline,)


@admin.register(Membership)
class MembershipAdmin(Granting, Editable):
    list_display = ("user", "project", "role", "created_at")
    list_filter = ("role", "project")
    search_fields = ("user__username", "project__name")
    autocomplete_fields = ("user", "project")


@admin.register(Workspace)
class WorkspaceAdmin(Written):
    list_display = ("user", "project", "saved_at")
    search_fields = ("user__username", "project__name")


@admin.register(Invitation)
class InvitationAdmin(Written):
    list_display = ("project", "email", "role", "created_by", "created_at", "expires_at", "accepted_at", "accepted_by")
    list_filter = ("project", "role")
    exclude = ("digest",)


@admin.register(Token)
class TokenAdmin(Written):
    list_display = ("name", "user", "created_at", "last_used_at", "expires_at", "revoked_at")
    search_fields = ("name", "user__username")
    exclude = ("digest",)


@admin.register(SignInLink)
class SignInLinkAdmin(Written):
    list_display = ("user", "created_at", "expires_at", "used_at")
    exclude = ("digest",)


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(Written):
    list_display = ("user", "path", "status_code", "created_at")
    exclude = ("answer", "body_digest")
