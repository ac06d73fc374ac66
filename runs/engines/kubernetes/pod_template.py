"""The pod template of a cluster: a partial PodSpec in YAML that is laid over the one that we make.

Fields are taken from a fixed list. What would change which program runs, how long, or whose pod it is, is refused with
its path. What the fields hold is checked by the API server, which ``trainyard doctor`` asks beforehand.
"""

import json
from collections.abc import Callable
from typing import Any

import yaml

from trainyard.contract.base import JsonObject

CONTAINER = "node"  # the name of our container
OURS = "trainyard-"  # names of our volumes begin with it
OUR_VARIABLES = "TRAINYARD_"
INDEX = "POD_INDEX"  # a variable: which of the job's pods it is
OUR_PATHS = ("/run/trainyard", "/var/lib/trainyard")
MAX_LENGTH = 50_000
OPEN_FIELDS = frozenset(
    {
        "affinity", "automountServiceAccountToken", "containers", "dnsConfig", "dnsPolicy", "hostAliases", "hostIPC",
        "hostNetwork", "imagePullSecrets", "initContainers", "nodeSelector", "preemptionPolicy", "priorityClassName",
        "resourceClaims", "runtimeClassName", "schedulerName", "securityContext", "serviceAccountName", "tolerations",
        "topologySpreadConstraints", "volumes",
    }
)  # fmt: skip
CONTAINER_FIELDS = frozenset(
    {"env", "envFrom", "imagePullPolicy", "name", "resources", "securityContext", "volumeDevices", "volumeMounts"}
)
WHY = {
    "activeDeadlineSeconds": "the setting time_limit says it",
    "args": "the pod runs Trainyard's node",
    "command": "the pod runs Trainyard's node",
    "image": "the setting image says it",
    "restartPolicy": "a new attempt is a new job",
    "serviceAccount": "its name today is serviceAccountName",
    "subdomain": "the job's own service gives it",
    "hostname": "the job gives it",
    "terminationGracePeriodSeconds": "the setting notice says it",
}


class TemplateProblem(ValueError):
    """A template that is not taken; the message names the path and the value."""


class _Loader(yaml.SafeLoader):
    """Plain values only, and no aliases: a few lines of them make gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise TemplateProblem("YAML's aliases (*name) are not taken")
        return super().compose_node(parent, index)


def read_template(text: str) -> JsonObject:
    """Return the partial PodSpec, empty for an empty text. Raises TemplateProblem."""
    if len(text) > MAX_LENGTH:
        raise TemplateProblem(f"at most {MAX_LENGTH:,} characters, not {len(text):,}")
    try:
        document = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise TemplateProblem(f"no YAML: {' '.join(str(error).split())[:300]}") from error
    except RecursionError as error:
        raise TemplateProblem("nested too deeply") from error
    if document is None:
        return {}
    try:
        json.dumps(document, allow_nan=False)
    except (TypeError, ValueError) as error:  # a date, or a set
        raise TemplateProblem(f"texts, numbers, lists and fields only: {error}") from error
    template = _mapping(document, "spec")
    _refuse_others(template, OPEN_FIELDS)
    _check_volumes(template)
    _check_containers(template)
    return template


def mount_paths(template: JsonObject) -> set[str]:
    """Return where the template mounts volumes in our container."""
    return {str(mount.get("mountPath", "")).rstrip("/") for mount in _container(template).get("volumeMounts") or []}


def laid_over(spec: JsonObject, template: JsonObject) -> JsonObject:
    """Return our PodSpec with the template over it. Lists of ours stay, and the template's are added behind them."""
    merged = _merged(spec, {name: value for name, value in template.items() if name != "containers"})
    container = {name: value for name, value in _container(template).items() if name != "name"}
    merged["containers"] = [_merged(spec["containers"][0], container)]
    return merged


def _merged(first: JsonObject, second: JsonObject) -> JsonObject:
    result = dict(first)
    for name, value in second.items():
        known = result.get(name)
        if isinstance(known, dict) and isinstance(value, dict):
            result[name] = _merged(known, value)
        else:
            result[name] = [*known, *value] if isinstance(known, list) and isinstance(value, list) else value
    return result


def _container(template: JsonObject) -> JsonObject:
    return dict((template.get("containers") or [{}])[0])


def _refuse_others(fields: JsonObject, taken: frozenset[str], place: str = "") -> None:
    for name, value in fields.items():
        if name not in taken:
            why = WHY.get(str(name), f"there are {', '.join(sorted(taken))}")
            raise TemplateProblem(f"{place}{name}: {_short(value)} cannot be set here: {why}")


def _check_volumes(template: JsonObject) -> None:
    for number, volume in enumerate(_list(template.get("volumes"), "volumes")):
        name = str(_mapping(volume, f"volumes[{number}]").get("name", ""))
        if name.startswith(OURS):
            raise TemplateProblem(f"volumes[{number}].name: {name!r} is ours; other names do not begin with {OURS!r}")


def _check_containers(template: JsonObject) -> None:
    for number, one in enumerate(_list(template.get("initContainers"), "initContainers")):
        _mapping(one, f"initContainers[{number}]")
    containers = _list(template.get("containers"), "containers")
    if not containers:
        return
    place = "containers[0]"
    container = _mapping(containers[0], place)
    if len(containers) > 1 or container.get("name", CONTAINER) != CONTAINER:
        name = _mapping(containers[-1], f"containers[{len(containers) - 1}]").get("name")
        raise TemplateProblem(f"containers: {_short(name)} is none of ours: there is one, named {CONTAINER!r}")
    _refuse_others(container, CONTAINER_FIELDS, f"{place}.")
    _each(container.get("env"), f"{place}.env", "name", _refuse_variable)
    _each(container.get("volumeMounts"), f"{place}.volumeMounts", "mountPath", _refuse_path)
    _each(container.get("volumeMounts"), f"{place}.volumeMounts", "name", _refuse_name)
    _check_resources(_mapping(container.get("resources") or {}, f"{place}.resources"), f"{place}.resources")


def _check_resources(resources: JsonObject, place: str) -> None:
    for kind in ("requests", "limits"):
        for name, value in _mapping(resources.get(kind) or {}, f"{place}.{kind}").items():
            if name in ("cpu", "memory") or str(name).endswith("/gpu"):
                setting = {"cpu": "cpus_per_slot", "memory": "memory"}.get(str(name), "gpu_resource")
                why = f"the setting {setting} says it"
                raise TemplateProblem(f"{place}.{kind}.{name}: {_short(value)} cannot be set here: {why}")


def _refuse_variable(name: str) -> str:
    is_ours = name.startswith(OUR_VARIABLES) or name == INDEX
    return f"{INDEX} and variables {OUR_VARIABLES}… are ours" if is_ours else ""


def _refuse_path(path: str) -> str:
    is_ours = any(path == one or path.startswith(f"{one}/") for one in OUR_PATHS)
    return f"{path} is Trainyard's own" if is_ours else ""


def _refuse_name(name: str) -> str:
    return f"volumes {OURS}… are ours" if name.startswith(OURS) else ""


def _each(value: object, place: str, field: str, refuse: Callable[[str], str]) -> None:
    for number, one in enumerate(_list(value, place)):
        text = _mapping(one, f"{place}[{number}]").get(field, "")
        if why := refuse(str(text)):
            raise TemplateProblem(f"{place}[{number}].{field}: {_short(text)}: {why}")


def _mapping(value: object, place: str) -> JsonObject:
    if not isinstance(value, dict):
        raise TemplateProblem(f"{place}: fields and their values, not {_short(value)}")
    return value


def _list(value: object, place: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise TemplateProblem(f"{place}: a list, not {_short(value)}")
    return value or []


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
