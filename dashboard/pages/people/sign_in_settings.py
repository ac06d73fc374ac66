"""Settings of sign-in: which providers there are, SCIM's tokens, and who needs a second factor."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from dashboard.pages.shared.frame import answer, is_script, page, person, show
from runs.models import Identity, Role
from runs.people.identity.second_factor import ask_from
from runs.people.scim.views import create_provisioning_token, live_provisioning_tokens, revoke_provisioning_token
from runs.rights.access import Permission, get_project, or_not_found
from runs.rights.access.operations import ADMINISTRATOR, HIDDEN_ADMINISTRATOR, thing

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
