"""Description of this server's abilities, which SCIM clients ask for first (RFC 7643, 5 to 7)."""

from __future__ import annotations

from runs.people.scim.documents import GROUP, LIST, USER
from trainyard.contract.base import JsonObject

CONFIG = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"
RESOURCE_TYPE = "urn:ietf:params:scim:schemas:core:2.0:ResourceType"
SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:Schema"
KINDS = (("User", "Users", USER), ("Group", "Groups", GROUP))
ATTRIBUTES = {
    USER: (
        ("userName", "string", True),
        ("externalId", "string", False),
        ("name", "complex", False),
        ("emails", "complex", False),
        ("active", "boolean", False),
    ),
    GROUP: (("displayName", "string", True), ("externalId", "string", False), ("members", "complex", False)),
}
MANY = frozenset({"emails", "members"})


def about(path: str, location: str) -> JsonObject | None:
    """Return the document about the server at that path; None where the path is about something else."""
    if path == "ServiceProviderConfig":
        return {
            "schemas": [CONFIG],
            "patch": {"supported": True},
            "bulk": {"supported": False, "maxOperations": 0, "maxPayloadSize": 0},
            "filter": {"supported": True, "maxResults": 200},
            "changePassword": {"supported": False},
            "sort": {"supported": False},
            "etag": {"supported": False},
            "authenticationSchemes": [
                {"type": "oauthbearertoken", "name": "Bearer token", "description": "Made by an administrator."}
            ],
            "meta": {"resourceType": "ServiceProviderConfig", "location": f"{location}/{path}"},
        }
    if path == "ResourceTypes":
        return _listed([_resource_type(*one, location) for one in KINDS])
    if path == "Schemas":
        return _listed([_schema(name, schema, location) for name, _, schema in KINDS])
    return None


def _resource_type(name: str, endpoint: str, schema: str, location: str) -> JsonObject:
    return {
        "schemas": [RESOURCE_TYPE],
        "id": name,
        "name": name,
        "endpoint": f"/{endpoint}",
        "schema": schema,
        "meta": {"resourceType": "ResourceType", "location": f"{location}/ResourceTypes/{name}"},
    }


def _schema(name: str, schema: str, location: str) -> JsonObject:
    attributes = [
        {"name": one, "type": kind, "multiValued": one in MANY, "required": is_required, "mutability": "readWrite"}
        for one, kind, is_required in ATTRIBUTES[schema]
    ]
    return {
        "schemas": [SCHEMA],
        "id": schema,
        "name": name,
        "attributes": attributes,
        "meta": {"resourceType": "Schema", "location": f"{location}/Schemas/{schema}"},
    }


def _listed(rows: list[JsonObject]) -> JsonObject:
    return {
        "schemas": [LIST],
        "totalResults": len(rows),
        "startIndex": 1,
        "itemsPerPage": len(rows),
        "Resources": rows,
    }
