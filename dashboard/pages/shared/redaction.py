"""Documents without secrets, for pages that travel: links for guests, files, reports."""

import re
from typing import Any

HIDDEN = "…"
SECRET = re.compile(r"passw|secret|credential|(?:api|access|private)[-_.]?key|(?:^|[-_.])token$|^patch$", re.I)
IN_ADDRESS = re.compile(r"//[^/@\s]+@")  # a name and a password


def without_secrets(value: Any, name: str = "") -> Any:
    """Return the document without values of variables, and what is named like a secret in a field or a command line."""
    if value and SECRET.search(name):
        return HIDDEN
    if isinstance(value, dict) and name == "environment":
        return {key: HIDDEN if isinstance(one, str) else without_secrets(one, key) for key, one in value.items()}
    if isinstance(value, dict):
        return {key: without_secrets(one, str(key)) for key, one in value.items()}
    if isinstance(value, list):  # an option names the word behind it
        options = ["", *(one.lstrip("-") if isinstance(one, str) and one.startswith("-") else "" for one in value)]
        return [without_secrets(one, option) for one, option in zip(value, options, strict=False)]
    if not isinstance(value, str):
        return value
    option, is_set, _ = value.partition("=")
    return f"{option}={HIDDEN}" if is_set and SECRET.search(option) else IN_ADDRESS.sub(f"//{HIDDEN}@", value)
