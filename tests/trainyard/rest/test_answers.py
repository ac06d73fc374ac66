"""The answers of the REST API as the client reads them: typed, open for what later versions add, and as documented."""

from __future__ import annotations

import json
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import httpx
import pytest

from runs.api import api
from trainyard.contract.answers import machines as machine_answers
from trainyard.contract.answers import people as data_answers
from trainyard.contract.answers import runs as run_answers
from trainyard.rest import answers
from trainyard.rest.client import Client
from trainyard.rest.connection import ApiError

TOKEN = {"token": "ty_1", "from_a_later_version": {"a": [1]}}
ANSWERS = [
    ("get", "/runs/{run_id}", run_answers.Run),
    ("get", "/runs", answers.Page[run_answers.Run]),
    ("post", "/runs/{run_id}/trace", run_answers.Traced),
    ("post", "/runs/{run_id}/apps", run_answers.OpenedApp),
    ("get", "/runs/{run_id}/files", run_answers.FileList),
    ("post", "/bundles", run_answers.Bundle),
    ("put", "/runs/local/{local_id}", answers.LocalRun),
    ("post", "/runs/{run_id}/frames", answers.Watermarks),
    ("get", "/runs/{run_id}/series", answers.Page[run_answers.Series]),
    ("get", "/runs/{run_id}/checkpoints", answers.Page[data_answers.Checkpoint]),
    ("get", "/runs/{run_id}/logs", answers.LogPage),
    ("get", "/runs/{run_id}/logs/search", answers.Page[answers.FoundLine]),
    ("get", "/runs/{run_id}/logs/line", answers.LogLine),
    ("get", "/datasets", answers.Page[data_answers.Dataset]),
    ("get", "/datasets/{dataset_id}", answers.DatasetWithFacts),
    ("get", "/clusters", answers.Page[machine_answers.Cluster]),
    ("get", "/nodes", answers.Page[machine_answers.Node]),
    ("post", "/tokens", answers.NewToken),
    ("post", "/plans", answers.Plans),
]


def client_that_gets(answer: object, status: int = 200) -> Client:
    client = Client("http://127.0.0.1:1", "ty_0")
    text = json.dumps(answer)
    transport = httpx.MockTransport(lambda request: httpx.Response(status, text=text))
    client._http = httpx.Client(transport=transport, base_url="http://127.0.0.1:1/api/v1/")
    return client


def test_fields_of_a_later_version_are_taken_and_kept() -> None:
    assert client_that_gets(TOKEN).create_token("mine") == TOKEN


@pytest.mark.parametrize(
    ("answer", "place"),
    [({}, "token"), ({"token": 1}, "token: Expected `str`, got `int` (it is '1')"), ([TOKEN], "Expected `object`")],
)
def test_an_answer_of_another_shape_names_the_field(answer: object, place: str) -> None:
    with pytest.raises(ApiError, match="does not answer as Trainyard does") as refused:
        client_that_gets(answer).create_token("mine")
    assert place in refused.value.detail


def test_an_item_of_a_list_is_checked_as_well() -> None:
    with pytest.raises(ApiError, match=r"items\.0"):
        list(client_that_gets({"items": [{"id": 7}], "next": None}).pages("clusters", machine_answers.Cluster))


@pytest.mark.parametrize(("method", "path", "kind"), ANSWERS, ids=[path for _, path, _ in ANSWERS])
def test_what_the_client_reads_is_in_the_openapi_document(method: str, path: str, kind: Any) -> None:
    document = api.get_openapi_schema(path_prefix="/api/v1/")
    operation = document["paths"][f"/api/v1{path}"][method]
    answer = next(answer for code, answer in operation["responses"].items() if str(code).startswith("2"))
    schema = answer["content"]["application/json"]["schema"]
    assert_named(kind, schema, document["components"]["schemas"], path)


def assert_named(kind: Any, schema: dict[str, Any], schemas: dict[str, Any], place: str) -> None:
    """Every field of the TypedDict is a field of the schema, and what the client needs is always there."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    arguments = get_args(kind)
    origin = get_origin(kind) or kind
    if origin is list:
        return assert_named(arguments[0], schema["items"], schemas, f"{place}[]")
    if not is_typeddict(origin):
        return None
    for name, field in get_type_hints(origin).items():
        if "properties" not in schema:  # free-form in the document, such as an estimate
            return None
        assert name in schema["properties"], f"{place}.{name}"
        of_page = list[arguments[0]] if arguments and name == "items" else field  # type: ignore[valid-type]
        assert_named(of_page, schema["properties"][name], schemas, f"{place}.{name}")
    return None
