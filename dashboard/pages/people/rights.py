"""Rights of more than one person: the table of permissions, groups, a project's own roles, service accounts, and how
people sign in."""

from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.pages.people.views import project_page, role_of_form
from dashboard.pages.shared.frame import answer, is_script, page, person, problems_of, show
from runs import actions
from runs.models import Identity, Role, User
from runs.people.identity.second_factor import ask_from
from runs.people.scim.views import create_provisioning_token, live_provisioning_tokens, revoke_provisioning_token
from runs.rights.access import (
    MEANINGS,
    OF_STAFF,
    PERMISSIONS_OF,
    Area,
    Permission,
    describe_roles,
    get_project,
    or_not_found,
    visible_projects,
)
from runs.rights.access.operations import ADMINISTRATOR, HIDDEN_ADMINISTRATOR, SIGNED_IN, thing

ROLES = [role.value for role in reversed(Role)]  # who may least comes first
COLUMNS = [*ROLES, "operator", "administrator"]  # of the table "Who may what"


def holders(permission: Permission) -> list[str]:
    """Return who has the permission: a line of the table."""
    found = [role for role in ROLES if permission in PERMISSIONS_OF[Role(role)]]
    if permission.area == Area.ACCOUNT:
        found = [*ROLES, "operator"]
    elif permission in OF_STAFF:
        found.append("operator")
    return [*found, "administrator"]


@page(get=SIGNED_IN)
def who_may_what(request: HttpRequest) -> HttpResponse:
    lines = [{"permission": one, "marks": [caller in holders(one) for caller in COLUMNS]} for one in Permission]
    mine = [(project, describe_roles(person(request), project)) for project in visible_projects(request.user)]
    context = {"columns": [one.capitalize() for one in COLUMNS], "lines": lines, "mine": mine}
    context["meanings"] = [(role.label, MEANINGS[role]) for role in Role]
    return show(request, "people/who_may_what.html", context)


@page(post=thing(Permission.MEMBERS_MANAGE))
def give_group_role(request: HttpRequest, project_id: str) -> HttpResponse:
    project = get_project(request, project_id)
    group = actions.group_named(request.POST.get("group", "").strip())
    role = role_of_form(request)
    actions.give_group_role(actor=person(request), group=group, project=project, role=role)
    return answer(request, f"Everybody in {group.name} is now {role.label.lower()} of {project.name}.", home="people")


@page(post=thing(Permission.MEMBERS_MANAGE))
def take_group_role(request: HttpRequest, project_id: str, group_id: int) -> HttpResponse:
    project = get_project(request, project_id)
    group = actions.group_named(str(group_id))
    actions.take_group_role(actor=person(request), group=group, project=project)
    return answer(request, f"Group {group.name} has no role in {project.name} any more.", home="people")


@page(post=thing(Permission.ROLES_MANAGE))
def save_role(request: HttpRequest, project_id: str) -> HttpResponse:
    """Make a role of the project, or change the one of that name."""
    project = get_project(request, project_id)
    name, chosen = request.POST.get("name", "").strip(), request.POST.getlist("permission")
    role = project.custom_roles.filter(name=name).first()
    try:
        actor = person(request)
        saved = actions.save_custom_role(actor=actor, project=project, name=name, permissions=chosen, role=role)
    except ValidationError as error:
        typed = {"name": name, "permissions": chosen, "problems": problems_of(error)}
        return project_page(request, project, status=422, part="access", custom_role=typed)
    return answer(request, f"Saved the role {saved.name} of {project.name}.", home="people")


@page(post=thing(Permission.ROLES_MANAGE))
def delete_role(request: HttpRequest, project_id: str, name: str) -> HttpResponse:
    role = actions.custom_role_of(get_project(request, project_id), name)
    actions.delete_custom_role(actor=person(request), role=role)
    return answer(request, f"Deleted the role {name}: whoever had it keeps their other one.", home="people")


@page(post=thing(Permission.TOKENS_MANAGE))
def new_account(request: HttpRequest, project_id: str) -> HttpResponse:
    """Make a service account with a token, and show the token's secret, this once."""
    project = get_project(request, project_id)
    name, role = request.POST.get("name", "").strip(), role_of_form(request)
    try:
        account = actions.create_service_account(actor=person(request), project=project, name=name, role=role)
    except ValidationError as error:
        typed = {"name": name, "problems": problems_of(error)}
        return project_page(request, project, status=422, part="access", account=typed)
    return _with_token(request, project_id, account)


@page(post=thing(Permission.TOKENS_MANAGE))
def account_token(request: HttpRequest, project_id: str, user_id: int) -> HttpResponse:
    return _with_token(request, project_id, _account(get_project(request, project_id).pk, user_id))


@page(post=thing(Permission.TOKENS_MANAGE))
def close_account(request: HttpRequest, project_id: str, user_id: int) -> HttpResponse:
    account = _account(get_project(request, project_id).pk, user_id)
    actions.close_service_account(actor=person(request), account=account)
    return answer(request, f"{account} is closed: its tokens open nothing any more.", home="people")


def _with_token(request: HttpRequest, project_id: str, account: User) -> HttpResponse:
    project = get_project(request.user, project_id)
    _, secret = actions.create_token(actor=person(request), user=account, name=account.username)
    return project_page(request, project, part="access", account_secret=secret, account_name=account.username)


def _account(project_id: str, user_id: int) -> User:
    account = User.objects.filter(service_of=project_id, is_active=True, pk=user_id).first()
    return or_not_found(account, "There is no such service account.")


# Settings of sign-in: which providers there are, SCIM's tokens, and who needs a second factor.


FRAGMENTS = {"scim": "people/_scim.html"}
NEEDS = {"": "nobody", "staff": "staff and administrators", "everybody": "everybody"}


@page(get=ADMINISTRATOR)
def sign_in_settings(request: HttpRequest) -> HttpResponse:
    return _show(request)


@page(post=ADMINISTRATOR)
def new_scim_token(request: HttpRequest) -> HttpResponse:
    """Make a token and show its secret, this once."""
    user = person(request)
    provider = settings.SIGN_IN.provider(request.POST.get("provider", ""))
    provider = or_not_found(provider, "There is no such provider in the settings.")
    _, secret = create_provisioning_token(actor=user, provider=provider)
    return _show(request, secret=secret, made_for=provider.name)


@page(post=HIDDEN_ADMINISTRATOR)
def revoke_scim_token(request: HttpRequest, token_id: str) -> HttpResponse:
    revoke_provisioning_token(actor=person(request), token_id=token_id)
    return answer(request, "Revoked the SCIM token.", home="sign-in-settings")


@page(post=thing(Permission.OWNERS_MANAGE))
def ask_second_factor(request: HttpRequest, project_id: str) -> HttpResponse:
    """Set from which role on a project's members need a second factor."""
    project = get_project(request, project_id)
    role = request.POST.get("second_factor_from", "")
    ask_from(actor=person(request), project=project, role=role)
    label = f"Who is {Role(role).label.lower()} or more" if role else "Nobody"
    sentence = f"{label} needs a second factor in {project.name} now."
    if is_script(request):
        return answer(request, sentence)
    return redirect(f"{reverse('people')}?project={project.name}")


def _show(request: HttpRequest, **context: object) -> HttpResponse:
    names = {one.id: one.name for one in settings.SIGN_IN.providers}
    tokens = live_provisioning_tokens().select_related("created_by")
    around = {
        "providers": [
            (one, Identity.objects.filter(provider=one.id).count(), one.roles) for one in settings.SIGN_IN.providers
        ],
        "needs": NEEDS[settings.SIGN_IN.second_factor],
        "scim_tokens": [(token, names.get(token.provider, token.provider)) for token in tokens],
        "scim_url": f"{settings.PUBLIC_URL}/scim/v2",
    }
    return show(request, "people/sign_in_settings.html", {**around, **context}, fragments=FRAGMENTS)
