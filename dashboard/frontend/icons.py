"""Icons as inline SVG, read once from the npm package: no font, so that the content-security policy stays strict."""

import re
from functools import cache

from django.conf import settings
from django.utils.safestring import SafeString, mark_safe

# Names that are Tabler's too; and ours -> Tabler's. A page that needs another adds it: a wrong name fails at once.
SHARED = ("archive", "arrow-down", "arrow-left", "arrow-right", "arrow-up", "bell", "check", "chevron-down",
          "chevron-left", "chevron-right", "copy", "download", "eye", "eye-off", "file", "filter", "help", "home",
          "key", "lock", "link", "notes", "pin", "search", "table", "upload", "zoom-out", "bell-off")  # fmt: skip
ICONS = {
    "add": "plus",
    "admin": "shield-cog",
    "alert": "alert-triangle",
    "apps": "app-window",
    "charts": "chart-line",
    "checkpoints": "flag",
    "clone": "copy-plus",
    "close": "x",
    "clusters": "server-2",
    "command": "terminal-2",
    "data": "database",
    "delete": "trash",
    "drain": "droplet-half-2",
    "edit": "pencil",
    "expand": "arrows-diagonal",
    "files": "folder",
    "fold": "layout-sidebar-left-collapse",
    "info": "info-circle",
    "jobs": "stack-2",
    "launch": "player-play",
    "logs": "align-left",
    "media": "photo",
    "more": "dots",
    "newest": "player-track-next",
    "outliers": "chart-dots",
    "pause": "player-pause",
    "people": "users",
    "plan": "gauge",
    "pruned": "cut",
    "ranks": "topology-ring-2",
    "restart": "rotate-clockwise",
    "resume": "player-play",
    "runs": "list-details",
    "sign-out": "logout",
    "sort": "arrows-sort",
    "spec": "code",
    "stop": "player-stop",
    "sweeps": "adjustments-search",
    "theme": "contrast-2",
    "timeline": "timeline-event",
    "undo": "arrow-back-up",
    # one per status, so that colour is never the only sign
    "status-queued": "clock",
    "status-scheduled": "calendar-time",
    "status-starting": "loader-2",
    "status-running": "player-play",
    "status-recovering": "heart-rate-monitor",
    "status-resizing": "arrows-maximize",
    "status-paused": "player-pause",
    "status-stopping": "player-stop",
    "status-lost": "plug-connected-x",
    "status-succeeded": "circle-check",
    "status-failed": "circle-x",
    "status-cancelled": "circle-minus",
}
FOLDER = settings.BASE_DIR / "node_modules/@tabler/icons/icons/outline"


@cache
def icon(name: str) -> SafeString:
    """Return the icon as markup that screen readers skip. Raises KeyError for a name that is not here."""
    file = FOLDER / f"{name if name in SHARED else ICONS[name]}.svg"
    paths = "".join(re.findall(r"<(?:path|circle|line|rect)\b[^>]*/>", file.read_text()))
    return mark_safe(
        '<svg class="icon" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-linecap="round"'
        f' stroke-linejoin="round" aria-hidden="true">{paths}</svg>'
    )
