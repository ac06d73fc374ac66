"""``/projects/…/storage``, ``retention``, ``regions``, ``encryption``, ``quota``: where its data lie, and how long."""

from django.http import HttpRequest
from ninja import Field

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.schemas import Body, schema_of
from runs.models import Project, StoredData
from runs.presenting.stamps import document_of
from runs.privacy.retention import usage_of
from runs.privacy.storage import REMOVABLE, days_kept
from runs.rights.access import Permission, get_project
from runs.rights.access.operations import ADMINISTRATOR, operation, thing
from runs.rights.secrets.storage_keys import newest_number
from trainyard.contract.answers import people as answers

router = Resource(tags=["projects"])


StorageOut, DaysOut = schema_of(answers.Storage), schema_of(answers.Days)


class Days(Body):
    days: dict[str, int | None] = Field(description="by kind, after the end of a run; null: for ever")


class RegionsIn(Body):
    regions: list[str]


class EncryptionIn(Body):
    encrypts: bool
    new_key: bool = Field(False, description="make a new version of the key, which encrypts from now on")


class DestroyIn(Body):
    confirm: str = Field(description="the project's name")


class QuotaIn(Body):
    quota_bytes: int | None


@router.get("/projects/{project_id}/storage", response=StorageOut, summary="Place and size of its data")
@operation(thing(Permission.PROJECTS_READ))
def storage(request: HttpRequest, project_id: str) -> answers.Storage:
    """As it was measured last, at most an hour ago or so; with its quota, and a sentence from 80 % of it on."""
    return _storage(get_project(request, project_id))


@router.post("/projects/{project_id}/storage", response=StorageOut, summary="Measure it now")
@operation(thing(Permission.PRIVACY_MANAGE))
def measure(request: HttpRequest, project_id: str) -> answers.Storage:
    """For owners."""
    project = get_project(request, project_id)
    actions.measure_storage(actor=actor(request), project=project)
    return _storage(project)


@router.get("/projects/{project_id}/retention", response=DaysOut, summary="Days that it keeps data")
@operation(thing(Permission.PROJECTS_READ))
def retention(request: HttpRequest, project_id: str) -> answers.Days:
    return _days(get_project(request, project_id))


@router.put("/projects/{project_id}/retention", response=DaysOut, summary="Keep kinds of data for so long")
@operation(thing(Permission.PRIVACY_MANAGE))
def set_retention(request: HttpRequest, project_id: str, body: Days) -> answers.Days:
    """Kinds that are not named stay as they are. What is older is removed within the hour. Example: `{"days": {"logs":
    30, "media": null}}`"""
    return _days(actions.set_retention(actor=actor(request), project=get_project(request, project_id), days=body.days))


@router.post(
    "/projects/{project_id}/retention/preview", response=schema_of(answers.Removals), summary="Preview of removals"
)
@operation(thing(Permission.PRIVACY_MANAGE))
def preview(request: HttpRequest, project_id: str, body: Days) -> answers.Removals:
    """Of how many runs something would go now. Example: `{"days": {"logs": 30}}`"""
    found = actions.preview_retention(actor=actor(request), project=get_project(request, project_id), days=body.days)
    return answers.Removals(
        items=[answers.Removal(kind=one.kind, days=one.days, runs=one.num_runs, bytes=one.bytes) for one in found]
    )


@router.put("/projects/{project_id}/regions", response=StorageOut, summary="Pin the project to regions")
@operation(thing(Permission.PRIVACY_MANAGE))
def set_regions(request: HttpRequest, project_id: str, body: RegionsIn) -> answers.Storage:
    """From now on nothing of it is launched or named elsewhere; what lies elsewhere already is marked. An empty list is
    anywhere. Example: `{"regions": ["eu"]}`"""
    project = get_project(request, project_id)
    return _storage(actions.set_regions(actor=actor(request), project=project, regions=body.regions))


@router.put(
    "/projects/{project_id}/encryption",
    response=StorageOut,
    summary="Encrypt what its runs log and leave, or no longer",
)
@operation(thing(Permission.PRIVACY_MANAGE))
def set_encryption(request: HttpRequest, project_id: str, body: EncryptionIn) -> answers.Storage:
    """Logs, media and output files that come, and checkpoints of recipes in attempts that begin, from now on. What is
    there stays as it is, and is read in either case. Example: `{"encrypts": true, "new_key": false}`"""
    user = actor(request)
    project = get_project(request, project_id)
    actions.set_encryption(actor=user, project=project, encrypts=body.encrypts)
    if body.new_key:
        actions.rotate_storage_key(actor=user, project=project)
    return _storage(project)


@router.post("/projects/{project_id}/encryption/destroy", response=StorageOut, summary="Destroy its storage keys")
@operation(thing(Permission.PRIVACY_MANAGE))
def destroy_keys(request: HttpRequest, project_id: str, body: DestroyIn) -> answers.Storage:
    """Nobody reads again what they encrypted, wherever a copy of it is. Refused while runs go on. Example: `{"confirm":
    "its name"}`"""
    project = get_project(request, project_id)
    actions.destroy_storage_keys(actor=actor(request), project=project, confirm=body.confirm)
    return _storage(project)


@router.put("/projects/{project_id}/quota", response=StorageOut, summary="Let the project store so much")
@operation(ADMINISTRATOR)
def set_quota(request: HttpRequest, project_id: str, body: QuotaIn) -> answers.Storage:
    """For administrators. Null: as much as there is room for. Example: `{"quota_bytes": 50000000000}`"""
    user = actor(request)
    project = get_project(user, project_id)
    return _storage(actions.set_quota(actor=user, project=project, quota_bytes=body.quota_bytes))


def _storage(project: Project) -> answers.Storage:
    usage = usage_of(project)
    return answers.Storage(
        regions=project.region_list,
        encrypts_files=project.encrypts_files,
        storage_key=newest_number(project),
        used_bytes=usage.used_bytes,
        quota_bytes=usage.quota_bytes,
        sentence=usage.sentence,
        items=[
            document_of(row, answers.Place.__annotations__, is_outside=not project.may_lie_in(row.region))
            for row in StoredData.objects.filter(project=project)
        ],
    )


def _days(project: Project) -> answers.Days:
    return answers.Days(days={kind: days_kept(project, kind) for kind in REMOVABLE})
