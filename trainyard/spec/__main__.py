"""``python -m trainyard.spec`` prints the tables of docs/spec.md, one for each part of the form."""

from __future__ import annotations

import json

from trainyard.spec.form import GROUPS, FieldInfo, form_fields

TITLES = {
    "what": "What",
    "where": "Where",
    "parallel": "Parallel (recipes only)",
    "train": "Train (recipes only)",
    "safety": "Safety",
}


def tables() -> str:
    """Return a heading and a table in Markdown for each group of fields."""
    parts = []
    for group in GROUPS:
        rows = [_row(field) for field in form_fields() if field.group == group]
        head = ["| field | type | default | meaning |", "|---|---|---|---|"]
        parts.append("\n".join([f"### {TITLES[group]}", "", *head, *rows]))
    return "\n\n".join(parts) + "\n"


def _row(field: FieldInfo) -> str:
    default = "required" if field.is_required else f"`{json.dumps(field.default)}`"
    return f"| `{field.path}` | {_type(field)} | {default} | {field.help} |"


def _type(field: FieldInfo) -> str:
    if field.kind == "choice":
        return " or ".join(f"`{choice}`" for choice in field.choices)
    if field.kind == "bool":
        return "true or false"
    if field.kind != "number":
        return {"list": "list of texts", "map": "map of texts"}.get(field.kind, "text")
    assert field.minimum is not None and field.maximum is not None, f"{field.path} has no limits"
    words = "whole number" if field.is_whole else "number"
    if field.minimum == field.maximum:
        return f"{words}, only {_figure(field.minimum)}"
    return f"{words} {'above' if field.is_above else 'from'} {_figure(field.minimum)} to {_figure(field.maximum)}"


def _figure(limit: float) -> str:
    return f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"


if __name__ == "__main__":
    print(tables(), end="")
