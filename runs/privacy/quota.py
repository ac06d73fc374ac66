"""Use of a project's quota, in a bar and a sentence, and what follows at its end."""

from typing import NamedTuple

from runs.models import Project, StoredData
from runs.privacy.storage import DataKind, code_of, total_of
from runs.values.refused import Refused

WARN_AT = 0.8
UNITS = ("bytes", "KB", "MB", "GB", "TB", "PB")


class Usage(NamedTuple):
    used_bytes: int
    quota_bytes: int | None
    sentence: str  # from 80 % on; empty below, and without a quota

    @property
    def percent(self) -> int | None:
        return None if not self.quota_bytes else min(round(100 * self.used_bytes / self.quota_bytes), 999)

    @property
    def is_full(self) -> bool:
        return bool(self.quota_bytes) and self.used_bytes >= (self.quota_bytes or 0)


def usage_of(project: Project) -> Usage:
    """Return what the project used when it was measured last. Its code, which anybody sends at any rate, is counted
    now."""
    rest = StoredData.objects.filter(project=project).exclude(kind=DataKind.CODE)
    return usage(project.name, total_of(rest) + code_of(project).bytes, project.quota_bytes)


def usage(name: str, used: int, quota: int | None) -> Usage:
    if not quota or used < WARN_AT * quota:
        return Usage(used, quota, "")
    of_quota = f"Project {name} stores {in_words(used)} of the {in_words(quota)} that it may"
    if used >= quota:
        return Usage(used, quota, f"{of_quota}: no run starts until something is deleted.")
    return Usage(used, quota, f"{of_quota} ({round(100 * used / quota)} %). When all is used no run starts.")


def require_room(project: Project, code_bytes: int = 0) -> None:
    """Raise Refused where the project has used all of its quota, or would with so much code more. What runs goes on,
    and its files are taken: a training of days is not lost for a number."""
    if not project.quota_bytes:
        return
    found = usage_of(project)
    if found.is_full:
        raise Refused("quota-used", found.sentence)
    if found.used_bytes + code_bytes > project.quota_bytes:
        of_quota = f"stores {in_words(found.used_bytes)} of the {in_words(project.quota_bytes)} that it may"
        raise Refused("quota-used", f"Project {project.name} {of_quota}, and this code has {in_words(code_bytes)}.")


def in_words(number: int) -> str:
    size, unit = float(number), UNITS[0]
    for unit in UNITS:
        if size < 1000 or unit == UNITS[-1]:
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == UNITS[0] or size >= 100 else f"{size:.1f} {unit}"
