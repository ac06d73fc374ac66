"""Parameters as a configuration, and a configuration's leaves."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainyard.contract.base import JsonObject


def with_params(config: JsonObject, params: Mapping[str, str]) -> JsonObject:
    """Return the configuration with the parameters of MLflow; ``a.b`` is ``b`` inside of ``a``, where that can be."""
    made: JsonObject = json.loads(json.dumps(config))
    for key, text in params.items():
        put(made, key.split("."), typed(text), key)
    return made


def put(config: JsonObject, parts: Sequence[str], value: Any, whole: str) -> None:
    """Set ``b`` inside of ``a``, and so on; under the ``whole`` name where something on the way is a value itself."""
    inner: Any = config
    *above, last = parts
    for part in above:
        inner = inner.setdefault(part, {}) if isinstance(inner, dict) else inner
    fits = last and isinstance(inner, dict) and not isinstance(inner.get(last), dict)
    (inner if fits else config)[last if fits else whole] = value


def typed(text: str) -> float | str:
    """Return a parameter as a number where that is written the same way, so that filters compare it as one."""
    for kind in (int, float):
        try:
            if str(number := kind(text)) == text and math.isfinite(number):
                return number
        except (ValueError, OverflowError):
            continue
    return text


def leaves(document: JsonObject, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what is innermost by its path, ``a.b`` for ``b`` in ``a``; that may be an empty object."""
    for name, one in document.items():
        if isinstance(one, dict) and one:
            yield from leaves(one, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", one
