"""People, projects and what opens doors. Digests of secrets are never shown."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import UserAdmin
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.admin import ModelAdmin, TabularInline
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from runs import actions
from runs.actions.people.ways_in import disable, end_ways_in, refuse_last_administrator
from runs.admin.base import ROWS, Editable, Granting, Written, proof_first
from runs.models import IdempotencyKey, Invitation, Membership, Project, SignInLink, Token, User, Workspace
from runs.privacy.kinds import REMOVABLE

# By the address a provider may link an account: whoever sets it could be that person.
RIGHTS_OF_PEOPLE = ("email", "is_staff", "is_superuser", "groups", "user_permissions")


class PersonForm(UserChangeForm):  # type: ignore[misc]
    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or self.cleaned_data
        stays = values.get("is_superuser", True) and values.get("is_active", True)
        before = User.objects.filter(pk=self.instance.pk, is_active=True).first()
        if before is not None and not stays:
            try:
                refuse_last_administrator(before)
            except actions.Refused as error:
                raise ValidationError(error.sentence) from error
        return values


@admin.register(User)
class PersonAdmin(Granting, UserAdmin, ModelAdmin):  # type: ignore[misc, type-arg]
    form = PersonForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_per_page = ROWS
    list_display = ("username", "email", "is_active", "is_staff", "is_superuser", "last_login")
    list_filter = ("is_active", "is_staff", "is_superuser")
    actions = ("revoke_all_tokens",)
    readonly_fields = ("date_joined",)  # by it a person is known who comes back with an older copy

    # Django lets whoever may edit people make themselves an administrator. Here only administrators give rights.

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        found = super().get_readonly_fields(request, obj)
        return found if _actor(request).is_superuser else (*found, *RIGHTS_OF_PEOPLE)

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if change and "is_active" in form.changed_data:  # what was there before does not come to life again either
            end_ways_in(obj) if obj.is_active else disable(obj)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and _may_change(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """People are erased, with a tombstone that restores honour: on their page under People."""
        return False

    @admin.action(description="Revoke all tokens of the selected people", permissions=["administrator"])
    def revoke_all_tokens(self, request: HttpRequest, people: QuerySet[User]) -> None:
        num = sum(actions.revoke_tokens(actor=_actor(request), user=user) for user in people)
        self.message_user(request, f"Revoked {num} tokens.", messages.SUCCESS)

    def has_administrator_permission(self, request: HttpRequest) -> bool:
        return _actor(request).is_superuser

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        """Say what a new password leaves as it is. Whoever sets a password can sign in as that person."""
        if not _actor(request).is_superuser:
            raise PermissionDenied("Only administrators set the passwords of others.")
        if (proof := proof_first(request)) is not None:
            return proof
        response: HttpResponse = super().user_change_password(request, id, form_url)
        user = self.get_object(request, unquote(id))
        if response.status_code == 302 and user is not None:
            self._warn_of_tokens(request, user)
        return response

    def _warn_of_tokens(self, request: HttpRequest, user: User) -> None:
        num = actions.live_tokens(Token.objects.filter(user=user)).count()
        if num:
            words = "1 token still works" if num == 1 else f"{num} tokens still work"
            words = f"Of {user.username} {words}: a new password ends none. The list of people can revoke them."
            self.message_user(request, words, messages.WARNING)


class MembershipInline(TabularInline):  # type: ignore[misc]
    model = Membership
    extra = 0
    autocomplete_fields = ("user",)


@admin.register(Project)
class ProjectAdmin(Granting, Editable):
    list_display = ("name", "id", "created_at")
    # Set on the pages People and "Where its data lie", by who may, where they are checked and what follows is shown.
    exclude = (
        "regions",
        "quota_bytes",
        "second_factor_from",
        "encrypts_files",
        *(f"keep_{kind}_days" for kind in REMOVABLE),
    )
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
    actions = ("revoke",)
    list_display = ("name", "user", "created_at", "last_used_at", "expires_at", "revoked_at")
    search_fields = ("name", "user__username")
    list_select_related = ("user",)
    exclude = ("digest",)

    @admin.action(description="Revoke the selected tokens", permissions=["administrator"])
    def revoke(self, request: HttpRequest, tokens: QuerySet[Token]) -> None:
        for token in tokens:
            actions.revoke_token(actor=_actor(request), token_id=token.pk)
        self.message_user(request, f"Revoked {len(tokens)} tokens.", messages.SUCCESS)

    def has_administrator_permission(self, request: HttpRequest) -> bool:
        return _actor(request).is_superuser


@admin.register(SignInLink)
class SignInLinkAdmin(Written):
    list_display = ("user", "created_at", "expires_at", "used_at")
    exclude = ("digest",)


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(Written):
    list_display = ("user", "path", "status_code", "created_at")
    exclude = ("answer", "body_digest")


def _may_change(request: HttpRequest, person: User | None) -> bool:
    return person is None or not person.is_superuser or _actor(request).is_superuser


def _actor(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user
