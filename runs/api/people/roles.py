"""``/permissions`` and ``/projects/…/roles``: who may what, and the roles that a project makes for itself."""

from typing import Any

from django.http import HttpRequest
from ninja import Field, Query, Schema

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.paging import Items, ListQuery, Page
from runs.api.schemas import Body, Shown
from runs.models import CustomRole
from runs.rights.access import PERMISSIONS_OF, Permission, get_project, permissions_in
from runs.rights.access.operations import SIGNED_IN, operation, thing

router = Resource(tags=["people"])


class PermissionOut(Schema):
    name: str = Field(description="of a token's scope, too")
    words: str = Field(description="complete the sentence: may …")
    held_on: str = Field(description="project, cluster, site or account")
    roles: list[str] = Field(description="the built-in roles of a project that have it")


class HeldOut(Schema):
    permissions: list[str]


class CustomRoleIn(Body):
    name: str = Field(min_length=1, max_length=40)
    permissions: list[str] = Field(description="what it adds to a member's built-in role")


class CustomRoleOut(Schema):
    name: str
    permissions: list[str]
    created_at: Shown


@router.get("/permissions", response=Items[PermissionOut], summary="Permissions, and the roles that have them")
@operation(SIGNED_IN)
def table(request: HttpRequest) -> Items[PermissionOut]:
    """In words; the names are those of tokens' scopes."""
    actor(request)
    return Items(
        items=[
            PermissionOut(
                name=one.value,
                words=str(one.label),
                held_on=one.area,
                roles=[role.value for role, held in PERMISSIONS_OF.items() if one in held],
            )
            for one in Permission
        ]
    )


@router.get("/projects/{project_id}/permissions", response=HeldOut, summary="My permissions in a project")
@operation(thing(Permission.PROJECTS_READ))
def mine(request: HttpRequest, project_id: str) -> HeldOut:
    """By the token that asks."""
    return HeldOut(permissions=sorted(permissions_in(actor(request), get_project(request, project_id))))


@router.get("/projects/{project_id}/roles", response=Page[CustomRoleOut], summary="The project's own roles")
@operation(thing(Permission.MEMBERS_READ))
def find(request: HttpRequest, project_id: str, query: Query[ListQuery]) -> Page[Any]:
    """Permissions that are added to a member's built-in role."""
    return query.page(get_project(request, project_id).custom_roles.all(), list, sort="name")


@router.post("/projects/{project_id}/roles", response={201: CustomRoleOut}, summary="Make a role of the project")
@operation(thing(Permission.ROLES_MANAGE))
def create(request: HttpRequest, project_id: str, body: CustomRoleIn) -> CustomRole:
    """For owners. It holds no more than whoever makes it may do there. Example: `{"name": "stopper", "permissions":
    ["runs:stop"]}`"""
    project = get_project(request, project_id)
    return actions.save_custom_role(actor=actor(request), project=project, name=body.name, permissions=body.permissions)


@router.put("/projects/{project_id}/roles/{name}", response=CustomRoleOut, summary="Change a role of the project")
@operation(thing(Permission.ROLES_MANAGE))
def change(request: HttpRequest, project_id: str, name: str, body: CustomRoleIn) -> CustomRole:
    """Example: `{"name": "stopper", "permissions": ["runs:stop", "runs:annotate"]}`"""
    project = get_project(request, project_id)
    role = actions.custom_role_of(project, name)
    return actions.save_custom_role(
        actor=actor(request), project=project, name=body.name, permissions=body.permissions, role=role
    )


@router.delete("/projects/{project_id}/roles/{name}", response={204: None}, summary="Delete a role of the project")
@operation(thing(Permission.ROLES_MANAGE))
def delete(request: HttpRequest, project_id: str, name: str) -> None:
    """Whoever had it keeps their built-in role."""
    project = get_project(request, project_id)
    actions.delete_custom_role(actor=actor(request), role=actions.custom_role_of(project, name))
