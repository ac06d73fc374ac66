"""Commands for what a run left in its output folder: listing it, and bringing it here.

Paths come from the server, and in the end from a script: none may lead out of the folder that was named. What was cut
off goes on where it stopped, as long as the file is still the same.
"""

import argparse
import json
import os
import time
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from trainyard.cli.screen import Screen, ago, size
from trainyard.contract.answers import runs as answers
from trainyard.contract.statuses import FINAL
from trainyard.formats.words import counted
from trainyard.rest.client import Client, quoted
from trainyard.rest.connection import ApiError, Unreachable

MAX_PATH = 1_000
PART = ".trainyard-part"
TRIES = 5
POLL_S, PATIENCE_S = 0.5, 60.0


class BadPath(OSError):
    """A path that leads out of the folder, or through what is there already."""


def files(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    if arguments.send:
        place = f"runs/{quoted(arguments.id)}/leftovers"
        listed = client.call("POST", place, answers.FileList, json={"decision": "upload"})
    else:
        listed = client.file_list(arguments.id)
    if arguments.json:
        screen.json(listed)
        return
    if listed["items"]:
        rows = [(one["path"], size(one["size_bytes"]), ago(one["modified_at"])) for one in listed["items"]]
        screen.table(("path", "size", "written"), rows)
    _say_what_waits(listed, arguments.id, screen)


def _say_what_waits(listed: answers.FileList, run: str, screen: Screen) -> None:
    """Say that there are no files, or which of them are still on nodes."""
    waiting = [one for one in listed["left"] if one["num_files"]]
    for one in waiting:
        what = f"{counted(one['num_files'], 'file')} in its working folder ({size(one['bytes'])})"
        screen.say(f"{one['node']} has {what}: {', '.join(file['path'] for file in one['files'][:3])}")
    if any(one["decision"] != "upload" for one in waiting):
        screen.say(f"`trainyard files {run} --send` has them sent here.")
    for sent in listed.get("sending", []):
        what = f"{counted(sent['num_files'], 'file')} ({size(sent['bytes'])})"
        why = f": {sent['problem']}" if sent["problem"] else ""
        screen.say(f"{sent['node']} is sending {what if sent['num_files'] else 'its output files'}{why}")
    if not waiting and not listed["items"] and not listed.get("sending"):
        screen.say("No files. What a rank writes to TRAINYARD_OUTPUT is listed here.")


def download(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    """Bring the files that were named, or all of them. The exit code is 1 where one could not be brought."""
    document = _arrived(client, arguments.id, screen)
    listed = document["items"]
    chosen = [one for one in listed if not arguments.paths or any(_fits(one["path"], word) for word in arguments.paths)]
    missing = [word for word in arguments.paths if not any(_fits(one["path"], word) for one in listed)]
    for word in missing:
        screen.complain(f"Run {arguments.id} has no file {word}.")
    root = Path(arguments.to or arguments.id)
    num_failed = len(missing)
    for one in chosen:
        try:
            what = _bring(client, arguments.id, one, root)
        except (ApiError, BadPath) as error:
            num_failed += 1
            screen.complain(f"{one['path']}: {error}")
            continue
        screen.say(f"{one['path']}  {size(one['size_bytes'])}  {what}")
    _say_what_waits(document, arguments.id, screen)
    if chosen:
        screen.line(str(root))
    return 1 if num_failed or (document.get("sending") and _is_over(client, arguments.id)) else 0


def _arrived(client: Client, run: str, screen: Screen) -> answers.FileList:
    """Return the files once all of an ended run have come, or nothing has for PATIENCE_S: then some are on the way."""
    listed, since, before = client.file_list(run), time.monotonic(), None
    while listed.get("sending") and _is_over(client, run) and time.monotonic() - since < PATIENCE_S:
        now = listed["items"], listed.get("sending")
        if before is None:
            _say_what_waits(listed, run, screen)
        if now != before:
            since, before = time.monotonic(), now
        time.sleep(POLL_S)
        listed = client.file_list(run)
    return listed


def _is_over(client: Client, run: str) -> bool:
    """Return whether the run has ended: the files of one that goes on come as they do."""
    return client.run(run)["status"] in FINAL


def _fits(path: str, word: str) -> bool:
    """Return whether a word names the file, a folder above it, or is a pattern such as ``*.pt`` that it fits."""
    return path == word or path.startswith(f"{word.rstrip('/')}/") or fnmatchcase(path, word)


def _bring(client: Client, run: str, one: answers.File, root: Path) -> str:
    """Write one file below ``root``. Return what was done, in a word."""
    target = inside(root, str(one["path"]))
    at = datetime.fromisoformat(one["modified_at"]).timestamp()
    if target.is_file() and target.stat().st_size == one["size_bytes"] and abs(target.stat().st_mtime - at) < 1:
        return "is here already"
    target.parent.mkdir(parents=True, exist_ok=True)
    part, note = target.with_name(f"{target.name}{PART}"), target.with_name(f"{target.name}{PART}.json")
    for left in range(TRIES - 1, -1, -1):
        try:
            _fetch(client, run, str(one["path"]), part, note)
            break
        except Unreachable:
            if not left:
                raise
    os.utime(part, (at, at))
    part.replace(target)
    note.unlink(missing_ok=True)
    return "brought"


def _fetch(client: Client, run: str, path: str, part: Path, note: Path) -> None:
    """Append to what is there of it, or begin anew where the file on the server is another one."""
    first, tag = 0, ""
    if part.is_file() and not part.is_symlink() and note.is_file():
        tag = str(json.loads(note.read_text() or "{}").get("tag") or "")
        first = part.stat().st_size if tag else 0
    headers = {"Range": f"bytes={first}-", "If-Range": tag} if first else {}
    headers["Accept-Encoding"] = "identity"
    try:
        with client.open(f"runs/{quoted(run)}/files/{quote(path)}", headers) as response:
            is_more = response.status_code == 206  # else all of it comes, since the file is not the one of the tag
            note.write_text(json.dumps({"tag": response.headers.get("ETag", "")}))
            with _opened(part, anew=not is_more) as file:
                for chunk in response.iter_bytes():
                    file.write(chunk)
    except ApiError as error:
        if error.status != 416:  # all of it had come
            raise


def _opened(part: Path, *, anew: bool) -> Any:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (os.O_TRUNC if anew else os.O_APPEND)
    return os.fdopen(os.open(part, flags, 0o644), "wb")


def inside(root: Path, path: str) -> Path:
    """Return where the file goes. Raises BadPath for a path that is not plainly inside ``root``."""
    parts = PurePosixPath(path).parts
    is_plain = bool(parts) and len(path) <= MAX_PATH and not path.startswith("/") and path.isprintable()
    if not is_plain or "\\" in path or any(part in ("..", ".") for part in parts):
        raise BadPath(f"{path[:100]!r} is no path inside a folder; it was left on the server")
    target = root.joinpath(*parts)
    for above in (*list(target.parents)[: len(parts) - 1], target):
        if above.is_symlink():
            raise BadPath(f"{above} is a link on this machine; nothing is written through it")
    return target
