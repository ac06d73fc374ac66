"""Where the stand-in for Kubernetes keeps its objects: as the API server shows them, checked against its schemas."""

from __future__ import annotations

import copy
import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]
CHECKED_BY = "1.34"  # whose published schemas new objects must fit
KINDS = {"jobs": "Job", "pods": "Pod", "services": "Service", "secrets": "Secret", "events": "Event",
         "workloads": "Workload"}  # fmt: skip


class Refused(Exception):
    """A request that is not carried out, with the status of HTTP."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Objects:
    """Objects by resource and name, of one namespace. Hold ``lock`` to change what was returned."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.lock = threading.RLock()
        self._rows: dict[tuple[str, str], Object] = {}
        self._version = 0

    def create(self, resource: str, document: Object, *, is_trial: bool = False) -> Object:
        check(document)
        document = copy.deepcopy(document)
        metadata = document["metadata"]
        name = metadata.setdefault("name", f"{metadata.get('generateName', '')}{uuid.uuid4().hex[:5]}")
        with self.lock:
            if (resource, name) in self._rows:
                raise Refused(409, "AlreadyExists", f'{resource} "{name}" already exists')
            metadata |= {"uid": str(uuid.uuid4()), "namespace": self.namespace, "creationTimestamp": now()}
            document.setdefault("status", {})
            if not is_trial:
                self._rows[resource, name] = document
                self.touch(document)
            return document

    def get(self, resource: str, name: str) -> Object:
        with self.lock:
            if (resource, name) not in self._rows:
                raise Refused(404, "NotFound", f'{resource} "{name}" not found')
            return self._rows[resource, name]

    def find(self, resource: str, matches: Callable[[Object], bool] = lambda _: True) -> list[Object]:
        with self.lock:
            return [row for (kind, _), row in self._rows.items() if kind == resource and matches(row)]

    def names(self) -> Iterator[str]:
        """Yield what there is, without what merely happened."""
        with self.lock:
            yield from (f"{kind}/{name}" for kind, name in self._rows if kind != "events")

    def touch(self, document: Object) -> None:
        with self.lock:
            self._version += 1
            document["metadata"]["resourceVersion"] = str(self._version)

    @property
    def version(self) -> str:
        return str(self._version)

    def remove(self, resource: str, name: str) -> None:
        """Remove it, and what names it as its owner."""
        with self.lock:
            gone = self._rows.pop((resource, name), None)
            if gone is None:
                return
            uid = gone["metadata"]["uid"]
            for kind, other in list(self._rows):
                if any(one["uid"] == uid for one in owners(self._rows[kind, other])) and kind != "pods":
                    self.remove(kind, other)

    def happened(self, about: Object, reason: str, message: str) -> None:
        """Write an event about the object, once."""
        metadata = about["metadata"]
        reference = {"kind": about["kind"], "name": metadata["name"], "uid": metadata["uid"]}
        same = self.find("events", lambda one: one["involvedObject"] == reference and one["reason"] == reason)
        if not same:
            event = {"apiVersion": "v1", "kind": "Event", "metadata": {"generateName": f"{metadata['name']}."},
                     "involvedObject": reference, "reason": reason, "message": message, "type": "Warning",
                     "lastTimestamp": now()}  # fmt: skip
            self.create("events", event)


def owners(document: Object) -> list[Object]:
    return list(document["metadata"].get("ownerReferences") or [])


def check(document: Object) -> None:
    """Raises Refused for what the schemas of Kubernetes do not allow."""
    import kubernetes_validate

    if document.get("kind") == "Workload":  # Kueue's
        return
    try:
        kubernetes_validate.validate(document, CHECKED_BY, strict=True)
    except kubernetes_validate.ValidationError as error:
        path = ".".join(str(one) for one in error.path)
        raise Refused(422, "Invalid", f"{document.get('kind')} is invalid: {path}: {error.message}") from error


def merge(document: Object, patch: Object) -> None:
    """Lay a merge patch (RFC 7386) over the document."""
    for name, value in patch.items():
        if value is None:
            document.pop(name, None)
        elif isinstance(value, dict) and isinstance(document.get(name), dict):
            merge(document[name], value)
        else:
            document[name] = value


def condition(document: Object, kind: str, status: str = "True", reason: str = "", message: str = "") -> None:
    """Set a condition of the object's status."""
    conditions = document["status"].setdefault("conditions", [])
    conditions[:] = [one for one in conditions if one["type"] != kind]
    conditions.append({"type": kind, "status": status, "reason": reason, "message": message})


def has_condition(document: Object, kind: str) -> bool:
    return any(one["type"] == kind and one["status"] == "True" for one in document["status"].get("conditions", []))
