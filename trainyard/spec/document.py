"""Reading a spec's document from a file, and changing it by dotted paths."""

import json
from collections.abc import Hashable
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from trainyard.contract.base import JsonObject
from trainyard.spec.problems import Problem, SpecError, show

MAX_REPEATED = 50_000  # values that aliases may stand for: a spec has no more


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, which refuses a key that is there twice (the first would silently be lost) and aliases that
    explode, and reads the keys on, off, yes and no as text, as it does times."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._sizes: dict[int, int] = {}  # values below a node, by its id
        self._num_repeated = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node:
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        assert node is not None, "there is an event"
        if is_alias:
            self._num_repeated += self._sizes.get(id(node), 0)  # of a cycle, which is refused elsewhere, not yet known
            if self._num_repeated > MAX_REPEATED:
                words = f"aliases (*name) stand for more than {MAX_REPEATED:,} values"
                raise yaml.constructor.ConstructorError(None, None, words, node.start_mark)
        else:
            below = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
            below = () if isinstance(node, yaml.ScalarNode) else below
            self._sizes[id(node)] = 1 + sum(self._sizes.get(id(one), 0) for one in below)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode):
                if key_node.tag == "tag:yaml.org,2002:bool":
                    key_node.tag = "tag:yaml.org,2002:str"  # YAML 1.1 takes the key on for true
                if key_node.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {show(key_node.value)} is there twice", key_node.start_mark
                    )
                seen.add(key_node.value)
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    first: [one for one in kinds if one[0] != "tag:yaml.org,2002:timestamp"]
    for first, kinds in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def line_at(text: str, path: str) -> int:
    """Return the line of a field in YAML that can be read, counted from 1; of one that is missing, that of the nearest
    map around it."""
    node, line = yaml.compose(text, _Loader), 1
    for part in path.split("."):
        found = node.value if isinstance(node, yaml.MappingNode) else []
        key, node = next(((key, value) for key, value in found if key.value == part), (None, None))
        line = key.start_mark.line + 1 if key else line
    return line


def load_spec_file(path: Path) -> Any:
    """Return the document in a YAML or JSON file. Raises SpecError where it is neither, OSError where none is."""
    return parse_document(path.read_bytes(), path.name)


def parse_document(text: str | bytes, source: str) -> Any:
    """Return the document in ``text``: JSON where ``source`` ends in .json, else YAML. Raises SpecError."""
    try:
        text = text.decode() if isinstance(text, bytes) else text
        if source.endswith(".json"):
            return json.loads(text, object_pairs_hook=_without_doubles)
        return yaml.load(text, _Loader)  # _Loader is a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SpecError([Problem("", f"{source} cannot be read: {_on_one_line(error)}")]) from None


def parse_value(text: str) -> Any:
    """Return what ``text`` behind ``--set path=`` means: YAML, so that 2 is a number and null is nothing."""
    try:
        return yaml.load(text, _Loader)  # _Loader is a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SpecError([Problem("", f"{show(text)} cannot be read: {_on_one_line(error)}")]) from None


def as_yaml(document: JsonObject) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)


def merge(document: JsonObject, overrides: JsonObject) -> JsonObject:
    """Return a copy of ``document`` with each dotted path set to its value. Raises SpecError where none can be."""
    merged = {**document}
    for path, value in overrides.items():
        *above, last = path.split(".")
        if not all((*above, last)):
            raise SpecError([Problem(path, "is no path of a field, such as train.steps")])
        place = merged
        for depth, part in enumerate(above, start=1):
            below = place.get(part, {})
            if not isinstance(below, dict):
                words = f"cannot be set: {'.'.join(above[:depth])} is {show(below)}, not a map"
                raise SpecError([Problem(path, words)])
            place[part] = dict(below)  # a copy of the maps on the way, so that the caller's document stays as it is
            place = place[part]
        place[last] = value
    return merged


def _without_doubles(pairs: list[tuple[str, Any]]) -> JsonObject:
    found: JsonObject = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the key {show(name)} is there twice")
        found[name] = value
    return found


def _on_one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def value_at_path(document: JsonObject, path: str) -> tuple[bool, Any]:
    """Return whether the document has a value at a path such as ``train.steps``, and the value."""
    value: Any = document
    for part in path.split("."):
        if not isinstance(value, dict) or part not in value:
            return False, None
        value = value[part]
    return True, value
