"""The database, read from the event loop by those who read all day long."""

from __future__ import annotations

import asyncio
from typing import Any

from asgiref.sync import SyncToAsync
from django.db import close_old_connections, connections


class in_database(SyncToAsync[..., Any]):  # used as a function, like channels' own
    """channels' database_sync_to_async, without its opening and closing a SQLite file for every query: that costs
    several times the query. A connection to a server is closed as there: nobody says when a kept one is dead."""

    def thread_handler(self, loop: asyncio.AbstractEventLoop, *args: Any, **kwargs: Any) -> Any:
        is_kept = all(connections[alias].vendor == "sqlite" for alias in connections)
        if not is_kept:
            close_old_connections()
        try:
            found = super().thread_handler(loop, *args, **kwargs)  # type: ignore[no-untyped-call]
        except BaseException:
            close_old_connections()
            raise
        if not is_kept:
            close_old_connections()
        return found
