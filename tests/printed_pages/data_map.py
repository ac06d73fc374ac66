"""``python -m tests.printed_pages.data_map`` prints docs/data_map.md: where there are data of people."""

from __future__ import annotations

from tests.printed_pages import django_is_ready

django_is_ready()

from runs.privacy.data_map import HOLDINGS  # noqa: E402


def documented() -> str:
    """Return docs/data_map.md."""
    lines = [
        "# Where there are data of people",
        "",
        "Printed from the lines that exports and erasures are made from.",
        "",
        "At an erasure a row is deleted, cleared (it stays and names nobody), or kept (shown under a pseudonym).",
        "",
        "| rows | by | what they hold | erasure | left out of exports |",
        "|---|---|---|---|---|",
    ]
    for one in HOLDINGS:
        hidden = ", ".join(f"`{name}`" for name in one.hidden)
        lines.append(f"| `{one.model}` | `{one.lookup}` | {one.holds} | {one.on_erasure.name.lower()} | {hidden} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    print(documented(), end="")
