"""A value of a spec as the text of its field in the launch form."""

import json
import re
import shlex
from typing import Any

from trainyard.spec import FieldInfo
from trainyard.spec.sections import changes, log_rules, watch
from trainyard.spec.values.fields import NO_LINES

WORDS = ("task.arguments", "task.command")  # command lines; every other list has commas between its entries
LINE_OF = {"changes": changes.line_of, "log_rules": log_rules.line_of, "watch": watch.line_of}  # entries are maps


def as_text(info: FieldInfo, value: Any) -> str:
    if value is None:
        return ""
    if info.kind == "list":
        return shlex.join(value) if info.path in WORDS else ", ".join(map(_quoted, value))
    if info.kind == "lines":
        lines = "\n".join(one if isinstance(one, str) else LINE_OF[info.path](one) for one in value)
        return lines or (NO_LINES if info.path == "watch" else "")
    if info.kind == "map":
        return "\n".join(f"{name}={content}" for name, content in value.items())
    if info.kind == "bool":
        return "on" if value else ""
    if info.kind == "nodes" and isinstance(value, dict):
        return f"{value.get('min')}-{value.get('max')}"
    if isinstance(value, dict) and "git" in value:
        return json.dumps({name: one for name, one in value.items() if one not in ("", False)})
    return str(value.get("sha256", "")) if isinstance(value, dict) else str(value)


def _quoted(entry: str) -> str:
    return '"' + entry.replace('"', '""') + '"' if re.search(r'[",\n]|^\s|\s$', entry) else entry
