"""Parameters of MLflow's, which are texts, as a configuration."""

import json
import math
from collections.abc import Mapping
from typing import Any

from trainyard.contract.base import JsonObject


def with_params(config: JsonObject, params: Mapping[str, str]) -> JsonObject:
    """Return the configuration with the parameters; ``a.b`` is ``b`` inside of ``a``, where that can be."""
    made: JsonObject = json.loads(json.dumps(config))
    for key, text in params.items():
        inner: Any = made
        *above, last = key.split(".")
        for part in above:
            inner = inner.setdefault(part, {}) if isinstance(inner, dict) else inner
        if last and isinstance(inner, dict) and not isinstance(inner.get(last), dict):
            inner[last] = typed(text)
        else:
            made[key] = typed(text)
    return made


def typed(text: str) -> float | str:
    """Return a parameter as a number where that is written the same way, so that filters compare it as one."""
    for kind in (int, float):
        try:
            if str(number := kind(text)) == text and math.isfinite(number):
                return number
        except (ValueError, OverflowError):
            continue
    return text
