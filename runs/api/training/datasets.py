"""``/datasets``: data that projects train on by name. And nodes' inspections of them."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any, cast

from django.http import HttpRequest
from ninja import Field, Query
from ninja.errors import HttpError

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.node_auth import described, read_sealed_body
from runs.api.paging import NamedQuery, Page, page_of
from runs.api.schemas import Body, schema_of
from runs.inputs.datasets import recipe_of
from runs.models import Dataset, Node
from runs.presenting.stamps import document_of
from runs.rights.access import Permission, get_cluster, get_dataset, get_project, visible_datasets
from runs.rights.access.operations import NODE, lists, operation, thing
from trainyard.contract import inspections
from trainyard.contract.answers import people as answers
from trainyard.contract.base import JsonObject
from trainyard.contract.inspections import DatasetFacts, Picture
from trainyard.contract.limits import MAX_FACTS_BYTES
from trainyard.formats.pictures import PNG_SIGNATURE, size_of

MAX_SIDE = 64  # pixels of a thumbnail
MAX_PNG_BYTES = 20_000
router = Resource(tags=["datasets"])

MAX_ANSWER_BYTES = MAX_FACTS_BYTES + 8_192  # the facts, the words around them and what JSON spends on spaces


class DatasetIn(Body):
    name: str
    source: str = Field(description="text, jsonl, npz, csv, parquet or images")
    location: str = Field(description="an absolute path on the cluster's nodes, or a URL")
    project: str = "default"
    cluster: str = "local"
    options: dict[str, str | int] = Field(
        default_factory=dict, description="further fields of task.data: target, text_field, image_size"
    )


class DatasetWithFacts(schema_of(answers.Dataset)):  # type: ignore[misc]  # the fields are those of the contract
    facts: dict[str, Any] = Field(description="what the node found: columns, classes, first rows, text, pictures")


@router.get("/datasets", response=page_of(answers.Dataset))
@operation(lists(Permission.DATASETS_READ))
def find(request: HttpRequest, query: Query[NamedQuery]) -> "Page[answers.Dataset]":
    user = actor(request)
    return query.page(query.among(user, visible_datasets(user)), _datasets, sort="name")


@router.post("/datasets", response={201: DatasetWithFacts}, summary="Name data; a node looks at it")
@operation(thing(Permission.DATASETS_EDIT))
def create(request: HttpRequest, body: DatasetIn) -> DatasetWithFacts:
    """A node inspects it within seconds. Example: `{"name": "trees", "source": "csv", "location": "/data/trees.csv",
    "options": {"target": "kind"}}`"""
    user = actor(request)
    project, cluster = get_project(user, body.project, Permission.DATASETS_EDIT), get_cluster(user, body.cluster)
    fields = body.dict(exclude={"project", "cluster"})
    return _whole(actions.create_dataset(actor=user, project=project, cluster=cluster, **fields))


@router.get("/datasets/{dataset_id}", response=DatasetWithFacts)
@operation(thing(Permission.DATASETS_READ))
def show(request: HttpRequest, dataset_id: str) -> DatasetWithFacts:
    return _whole(get_dataset(request, dataset_id))


@router.post("/datasets/{dataset_id}/check", response=DatasetWithFacts, summary="Have a node look again")
@operation(thing(Permission.DATASETS_EDIT))
def check(request: HttpRequest, dataset_id: str) -> DatasetWithFacts:
    return _whole(actions.check_dataset(actor=actor(request), dataset=get_dataset(request, dataset_id)))


@router.delete("/datasets/{dataset_id}", response={204: None}, summary="Forget the name; the files stay")
@operation(thing(Permission.DATASETS_EDIT))
def delete(request: HttpRequest, dataset_id: str) -> None:
    """409 while a live run uses it."""
    actions.delete_dataset(actor=actor(request), dataset=get_dataset(request, dataset_id))


@router.post(
    "/node/datasets/{dataset_id}/answer",
    response={204: None},
    openapi_extra=described(inspections.Answer),
    summary="Say what is in it (nodes only)",
)
@operation(NODE)
def answer(request: HttpRequest, dataset_id: str) -> None:
    """Only the node that was asked last may, and only once."""
    if len(request.body) > MAX_ANSWER_BYTES:
        raise HttpError(422, f"facts: they may have {MAX_FACTS_BYTES:,} bytes")
    body = read_sealed_body(request, inspections.Answer)
    if (body.facts is None) != bool(body.problem):
        raise HttpError(422, "an answer has either facts or a problem")
    node: Node = request.auth  # type: ignore[attr-defined]
    facts = None if body.facts is None else kept_facts(body.facts)
    if not actions.answer_dataset(
        node=node, dataset_id=dataset_id, question=body.question, facts=facts, problem=body.problem
    ):
        raise HttpError(409, "This node was not asked that, or somebody answered already.")


def _whole(row: Dataset) -> DatasetWithFacts:
    return DatasetWithFacts(**_datasets([row])[0], facts=row.facts)


def _datasets(rows: Sequence[Dataset]) -> list[answers.Dataset]:
    names = answers.Dataset.__annotations__
    return [
        document_of(row, names, recipe=recipe_of(row.source, row.options), num_rows=row.facts.get("num_rows"))
        for row in rows
    ]


# What is kept of a node's facts about a dataset. Pages show them, and nodes are not trusted.


def kept_facts(facts: DatasetFacts) -> DatasetFacts:
    """Return the facts without what says nothing, each picture checked. Raises HttpError."""
    if "kind" not in facts:
        raise HttpError(422, "facts.kind: it is missing")
    kept: JsonObject = {**facts}
    columns = [{name: value for name, value in one.items() if value is not None} for one in facts.get("columns", [])]
    kept["columns"] = columns
    kept["images"] = [_kept_picture(one, f"facts.images.{place}") for place, one in enumerate(facts.get("images", []))]
    telling = {name: value for name, value in kept.items() if value or (value == 0 and value is not False)}
    return cast(DatasetFacts, telling)


def _kept_picture(picture: Picture, path: str) -> Picture:
    try:
        data = base64.b64decode(picture["png"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise HttpError(422, f"{path}.png: a picture is base64") from error
    size = size_of(data) if data.startswith(PNG_SIGNATURE) and len(data) <= MAX_PNG_BYTES else None
    if size is None or max(size) > MAX_SIDE:
        raise HttpError(422, f"{path}.png: a picture is a PNG of at most {MAX_SIDE} x {MAX_SIDE} pixels")
    return {"label": picture.get("class", ""), "png": base64.b64encode(data).decode()}
