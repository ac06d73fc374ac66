"""What happens to all runs and nodes. Each member gets messages about the runs that its person sees."""

from __future__ import annotations

import asyncio

from channels.db import database_sync_to_async

from dashboard.sockets import feeds
from dashboard.sockets.feeds import Feed, Member
from runs.access import projects_of_runs, projects_of_sweeps
from runs.broadcast import Message
from runs.deltas.encoded import message_text

PING = message_text({"type": "ping", "cursor": 0})


class OverviewFeed(Feed):
    def __init__(self, group: str) -> None:
        self._is_listening = False
        self._changed: set[str] = set()
        self._changed_sweeps: set[str] = set()
        self._has_changes = asyncio.Event()
        super().__init__(group)

    def join(self, member: Member, since: int | None) -> None:
        super().join(member, since)
        if self._is_listening:
            member.outbox.hint(PING)

    def receive(self, message: Message) -> None:
        if "run" in message:
            self._changed.add(message["run"])
            self._has_changes.set()
        elif "sweep" in message:
            self._changed_sweeps.add(message["sweep"])
            self._has_changes.set()
        else:
            self.hint(message_text(message))

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        self._is_listening = True
        self.hint(PING)  # from here on nothing is missed
        projects: dict[str, str] = {}
        ping_at = loop.time() + feeds.PING_EVERY_S
        while True:
            try:
                async with asyncio.timeout_at(ping_at):
                    await self._has_changes.wait()
            except TimeoutError:
                ping_at = loop.time() + feeds.PING_EVERY_S
                projects.clear()  # what was true of a run need not stay so
                self.hint(message_text({"type": "ping", "cursor": 0, "server": await feeds.server_sentences()}))
            self._has_changes.clear()
            changed, self._changed = self._changed, set()
            if unknown := changed - projects.keys():
                projects.update(await database_sync_to_async(projects_of_runs)(unknown))
            for run_id in changed:
                self._send_hint({"type": "run", "run": run_id}, projects.get(run_id))
            await self._send_sweeps()

    async def _send_sweeps(self) -> None:
        changed, self._changed_sweeps = self._changed_sweeps, set()
        projects = await database_sync_to_async(projects_of_sweeps)(changed) if changed else {}
        for sweep_id in changed:
            self._send_hint({"type": "sweep", "sweep": sweep_id}, projects.get(sweep_id))

    def _send_hint(self, message: Message, project_id: str | None) -> None:
        text = message_text(message)
        for member in self.members:
            if member.sight.sees(project_id):
                member.outbox.hint(text)
