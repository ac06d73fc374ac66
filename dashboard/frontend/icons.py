"""Icons as inline SVG, read once from the npm package: no font, so that the content-security policy stays strict."""

import re
from functools import cache

from django.conf import settings
from django.utils.safestring import SafeString, mark_safe

# Ours -> Tabler's name. A page that needs another adds it here, so that a wrong name fails at once.
ICONS = {
    "add": "plus",
    "admin": "shield-cog",
    "alert": "alert-triangle",
    "apps": "app-window",
    "archive": "archive",
    "bell": "bell",
    "arrow-down": "arrow-down",
    "arrow-left": "arrow-left",
    "arrow-right": "arrow-right",
    "arrow-up": "arrow-up",
    "charts": "chart-line",
    "check": "check",
    "checkpoints": "flag",
    "chevron-down": "chevron-down",
    "chevron-left": "chevron-left",
    "chevron-right": "chevron-right",
    "clone": "copy-plus",
    "close": "x",
    "clusters": "server-2",
    "command": "terminal-2",
    "copy": "copy",
    "data": "database",
    "delete": "trash",
    "download": "download",
    "drain": "droplet-half-2",
    "edit": "pencil",
    "expand": "arrows-diagonal",
    "eye": "eye",
    "eye-off": "eye-off",
    "file": "file",
    "files": "folder",
    "filter": "filter",
    "fold": "layout-sidebar-left-collapse",
    "help": "help",
    "home": "home",
    "info": "info-circle",
    "jobs": "stack-2",
    "key": "key",
    "launch": "player-play",
    "lock": "lock",
    "link": "link",
    "logs": "align-left",
    "media": "photo",
    "more": "dots",
    "newest": "player-track-next",
    "notes": "notes",
    "outliers": "chart-dots",
    "pause": "player-pause",
    "people": "users",
    "pin": "pin",
    "plan": "gauge",
    "pruned": "cut",
    "ranks": "topology-ring-2",
    "restart": "rotate-clockwise",
    "resume": "player-play",
    "runs": "list-details",
    "search": "search",
    "sign-out": "logout",
    "sort": "arrows-sort",
    "spec": "code",
    "stop": "player-stop",
    "sweeps": "adjustments-search",
    "table": "table",
    "theme": "contrast-2",
    "timeline": "timeline-event",
    "undo": "arrow-back-up",
    "upload": "upload",
    "zoom-out": "zoom-out",
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
    """Return the icon as markup that screen readers skip. Raises KeyError for a name that is not in ICONS."""
    paths = "".join(re.findall(r"<(?:path|circle|line|rect)\b[^>]*/>", (FOLDER / f"{ICONS[name]}.svg").read_text()))
    return mark_safe(
        '<svg class="icon" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-linecap="round"'
        f' stroke-linejoin="round" aria-hidden="true">{paths}</svg>'
    )
