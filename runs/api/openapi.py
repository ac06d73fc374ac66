"""The OpenAPI document: what the framework finds in the handlers, and what it cannot know: refusals and the spec."""

import json
from copy import deepcopy
from typing import Any

from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation

from runs.api.problems import TITLES
from trainyard.contract.base import JsonObject
from trainyard.spec import json_schema
from trainyard.spec.sweeps import sweep_schema

SCHEMAS = "#/components/schemas/"
SPEC = {"$ref": f"{SCHEMAS}Spec"}
SWEEP = {"$ref": f"{SCHEMAS}Sweep"}
# ``openapi_extra`` of a handler that reads its body as it comes.
ANY_BYTES = {"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string"}}}}}
SPEC_OR_JOB = {"anyOf": [SPEC, {"$ref": f"{SCHEMAS}FromJob"}]}
FROM_JOB = {
    "title": "FromJob",
    "description": "A job with changes.",
    "type": "object",
    "required": ["job"],
    "additionalProperties": False,
    "properties": {
        "job": {"type": "string", "description": "the id of a job"},
        "overrides": {"type": "object", "description": "path -> value, such as train.steps: 500"},
    },
}
PROBLEM = {
    "title": "Problem",
    "description": "RFC 9457.",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "one sentence"},
        "code": {"type": "string", "description": "for programs"},
        "errors": {
            "description": "what was sent wrongly, and where",
            "type": "array",
            "items": {
                "type": "object",
                "required": ["path", "message"],
                "properties": {"path": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
}


class Api(NinjaAPI):
    """The framework's, with a whole document."""

    def get_openapi_operation_id(self, operation: Operation) -> str:
        """Return a name made of the resource's module and the handler. Folders are left out: modules may move."""
        handler = operation.view_func
        return f"runs_api_{handler.__module__.rpartition('.')[2]}_{handler.__name__}"

    def get_openapi_schema(self, **options: Any) -> OpenAPISchema:
        document = super().get_openapi_schema(**options)
        document.update(deepcopy(dict(document)))  # parts of it belong to the handlers
        schemas = document["components"]["schemas"]
        schemas |= {"Problem": PROBLEM, "FromJob": FROM_JOB, "Spec": json_schema(), "Sweep": sweep_schema()}
        _hoist(document)
        document["components"]["responses"] = {f"Problem{code}": _refusal(code) for code in TITLES if code < 500}
        for operations in document["paths"].values():
            for method, operation in operations.items():
                for status in _refusals(method, operation):
                    operation["responses"].setdefault(status, {"$ref": f"#/components/responses/Problem{status}"})
        return document


def body_of(schema: JsonObject) -> JsonObject:
    """Return ``openapi_extra`` of a handler that reads JSON of this schema."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _refusal(status: int) -> JsonObject:
    content = {"application/problem+json": {"schema": {"$ref": f"{SCHEMAS}Problem"}}}
    found: JsonObject = {"description": TITLES[status], "content": content}
    if status == 429:
        wait = {"description": "seconds after which another request is taken", "schema": {"type": "integer"}}
        found["headers"] = {"Retry-After": wait}
    return found


def _refusals(method: str, operation: JsonObject) -> list[int]:
    """Return the statuses with which any request of that shape may be refused."""
    is_joining = operation["operationId"].endswith("nodes_join")
    has_body, is_private = "requestBody" in operation, bool(operation.get("security"))
    found = {
        401: is_private,
        403: is_private or is_joining,
        404: is_private,
        408: has_body,
        409: (is_private and method != "get") or is_joining or operation["operationId"].endswith("files_download"),
        413: has_body,
        422: is_private or is_joining,
        428: operation["operationId"].endswith("uploads_store_part"),  # a part of a file that nobody began
        429: is_private,
    }
    return [status for status, may_be in found.items() if may_be]


def _text(definition: JsonObject) -> str:
    """Return the definition as text, whether ``_hoist`` has been there already or not."""
    text = json.dumps(definition, sort_keys=True).replace('"#/$defs/', f'"{SCHEMAS}')
    return text.replace('"items": false, ', "")


def _hoist(document: JsonObject) -> None:
    """Move the definitions that schemas bring along to where the document has all of its own: there they are found. Of
    tuples ``items: false`` is left out: their length says the same, and generators of clients know no such schema."""
    schemas = document["components"]["schemas"]
    waiting: list[Any] = [document]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if part.get("items") is False:
                del part["items"]
            for name, definition in part.pop("$defs", {}).items():
                known = schemas.setdefault(name, definition)
                if known is not definition and _text(known) != _text(definition):
                    raise ValueError(f"two schemas are called {name}")
                waiting.append(definition)
            if isinstance(reference := part.get("$ref"), str):
                part["$ref"] = reference.replace("#/$defs/", SCHEMAS)
            mapping = (
                part.get("discriminator", {}).get("mapping", {}) if isinstance(part.get("discriminator"), dict) else {}
            )
            mapping.update({key: value.replace("#/$defs/", SCHEMAS) for key, value in mapping.items()})
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
