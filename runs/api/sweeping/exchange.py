"""``/sweeps/import`` and ``/sweeps/{id}/study``: trials from and for other tools. The server opens none of their
storages: the terminal does, and sends what it has read."""

from django.http import HttpRequest, HttpResponse
from ninja import Schema

from runs.api.auth import Resource, actor
from runs.api.node_auth import answer_with, described, read_body
from runs.rights.access import Permission, get_sweep
from runs.rights.access.operations import operation, thing
from runs.sweeps.exchange import import_study, study_of
from trainyard.contract.base import JsonObject, WireStruct
from trainyard.interchange.study import Study

router = Resource(tags=["sweeps"])


class Import(WireStruct):
    """The document of a sweep, and the study with which it begins."""

    sweep: JsonObject
    study: Study


class ImportedOut(Schema):
    id: str
    name: str


@router.post(
    "/sweeps/import",
    response={201: ImportedOut},
    openapi_extra=described(Import),
    summary="Start a sweep with the finished trials of a study",
)
@operation(thing(Permission.SWEEPS_LAUNCH))
def start(request: HttpRequest) -> ImportedOut:
    """`sweep` is as for `POST /sweeps`; its space has all parameters of the study that are to vary. The trials of the
    study are not of the budget. Example: `@import.json`"""
    body = read_body(request, Import)
    made = import_study(actor=actor(request), document=body.sweep, study=body.study)
    return ImportedOut(id=made.pk, name=made.name)


@router.get(
    "/sweeps/{sweep_id}/study",
    response={200: None},
    openapi_extra=described(answer=Study),
    summary="The finished trials of a sweep, as a study",
)
@operation(thing(Permission.SWEEPS_READ))
def study(request: HttpRequest, sweep_id: str) -> HttpResponse:
    return answer_with(study_of(get_sweep(request, sweep_id)))
