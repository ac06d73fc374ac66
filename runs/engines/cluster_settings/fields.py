"""Settings that clusters of several engines have."""

from re import Pattern
from typing import Any

from runs.engines.cluster_settings import checks
from runs.engines.cluster_settings.settings import Check, field
from trainyard.contract.limits import MAX_SLOTS


def machines(most: int = checks.MAX_MACHINES, *, heading: str = "") -> Any:
    return field(2, "Machines", "How many all runs may have at once.", checks.number(1, most), heading=heading)


def slots() -> Any:
    return field(1, "Ranks on a machine", "At most; a run may ask for fewer.", checks.number(1, MAX_SLOTS))


def memory(help: str, pattern: Pattern[str], example: str) -> Any:
    return field("", "Memory of a machine", help, checks.text(pattern, f"a size such as {example}"))


def time_limit(check: Check, default: str = "", **more: Any) -> Any:
    words = "A run that needs longer saves a checkpoint, ends, and goes on in another job."
    return field(default, "Time limit of a job", f"Such as {default or '4h'}. {words}", check, **more)


def server(machines: str = "the machines", check: Check = checks.server) -> Any:
    return field("", "This server", f"Its address as {machines} reach it; empty for PUBLIC_URL.", check)
