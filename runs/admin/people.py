"""People, projects and what opens doors. Digests of secrets are never shown."""

from typing import Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from runs import actions
from runs.actions.people.ways_in import disable, end_rows, end_ways_in, refuse_last_administrator
from runs.admin.base import ROWS, Editable, Granting, WrittenAdmin, inline, proof_first, written
from runs.models import BrowserSession, ClusterRole, CustomRole, GroupRole, Membership, Project, Token, User
from runs.privacy.storage import REMOVABLE
from runs.rights.access import IN_PROJECTS, Permission

# By the address a provider may link an account: whoever sets it could be that person.
RIGHTS_OF_PEOPLE = ("email", "is_staff", "is_superuser", "groups", "user_permissions")
KEEPING = tuple(f"keep_{kind}_days" for kind in REMOVABLE)


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
        may_change = obj is None or not obj.is_superuser or _actor(request).is_superuser
        return super().has_change_permission(request, obj) and may_change

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """People are erased, with a tombstone that restores honour: on their page under People."""
        return False

    @admin.action(description="Revoke all tokens of the selected people", permissions=["administrator"])
    def revoke_all_tokens(self, request: HttpRequest, people: QuerySet[User]) -> None:
        num = sum(actions.revoke_tokens(actor=_actor(request), user=user) for user in people)
        self.message_user(request, f"Revoked {num} tokens.", messages.SUCCESS)

    has_administrator_permission = WrittenAdmin.has_administrator_permission

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        """Say what a new password leaves as it is. Whoever sets a password can sign in as that person."""
        if not _actor(request).is_superuser:
            raise PermissionDenied("Only administrators set the passwords of others.")
        if (proof := proof_first(request)) is not None:
            return proof
        response: HttpResponse = super().user_change_password(request, id, form_url)
        user = self.get_object(request, unquote(id))
        if response.status_code == 302 and user and (num := actions.live_tokens(user.tokens.all()).count()):
            words = "1 token still works" if num == 1 else f"{num} tokens still work"
            words = f"Of {user.username} {words}: a new password ends none. The list of people can revoke them."
            self.message_user(request, words, messages.WARNING)
        return response


class GrantingTable(Granting, Editable):
    """A table of rows with people's rights."""


# Set on the pages People and "Where its data lie", by who may, where they are checked and what follows is shown.
ELSEWHERE = ("regions", "quota_bytes", "second_factor_from", "encrypts_files", *actions.LIMITS, *KEEPING)
written(
    Project, "name id created_at", base=GrantingTable, search="name id", exclude=ELSEWHERE,
    inlines=(inline(Membership, autocomplete_fields=("user",)),),
)  # fmt: skip
written(
    Membership, "user project role created_at", base=GrantingTable, filters="role project",
    search="user__username project__name", autocomplete_fields=("user", "project"),
)  # fmt: skip


@admin.register(Token)
class TokenAdmin(WrittenAdmin):
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


def _actor(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user


# allauth's own tables: the settings file names the providers, and keys of second factors are nobody's to see.
for model in (EmailAddress, SocialAccount, SocialApp, SocialToken, Authenticator):
    admin.site.unregister(model)


@admin.register(BrowserSession)
class BrowserSessionAdmin(WrittenAdmin):
    actions = ("end",)
    list_display = ("user", "method", "address", "created_at", "last_used_at")
    list_select_related = ("user",)
    search_fields = ("user__username", "address")
    exclude = ("session_key",)

    @admin.action(description="Sign these browsers out", permissions=["administrator"])
    def end(self, request: HttpRequest, rows: QuerySet[BrowserSession]) -> None:
        found = list(rows)
        end_rows(found)
        self.message_user(request, f"Signed {len(found)} browsers out.", messages.SUCCESS)


# Rights of groups of people, and the roles that projects made for themselves.

admin.site.unregister(Group)


@admin.register(Group)
class PeopleGroupAdmin(Granting, GroupAdmin, ModelAdmin):  # type: ignore[misc]
    list_per_page = ROWS
    inlines = (inline(GroupRole), inline(ClusterRole))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Let only administrators give Django's permissions: who may edit groups is not thereby one."""
        found = super().get_readonly_fields(request, obj)
        return found if _actor(request).is_superuser else (*found, "permissions")


written(
    GroupRole, "group project role custom_role created_at", base=GrantingTable, filters="role project",
    search="group__name project__name",
)  # fmt: skip
written(
    ClusterRole, "group cluster role created_at", base=GrantingTable, filters="role cluster",
    search="group__name cluster__name",
)  # fmt: skip


class CustomRoleForm(forms.ModelForm):  # type: ignore[type-arg]
    """Takes the permissions of projects alone, as the page of a project and REST do."""

    permissions = forms.MultipleChoiceField(choices=[(it.value, it.value) for it in Permission if it in IN_PROJECTS])

    class Meta:
        model = CustomRole
        fields = ("project", "name", "permissions")


written(
    CustomRole, "name project permissions created_at", base=GrantingTable, filters="project",
    search="name project__name", form=CustomRoleForm,
)  # fmt: skip
