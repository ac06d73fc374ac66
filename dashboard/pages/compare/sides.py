"""Two to four runs side by side: their code, the packages they ask for, media of one step, and the ends of their logs.

Each part is loaded when somebody opens it. What it reads is bounded, whatever a run has.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from typing import NamedTuple

from dashboard.pages.run.views import DiffLine, diff_lines
from runs.models import Attempt, Run, RunCode
from runs.records.files.paths import bundle_path
from runs.records.logs.read import end_of_log
from runs.records.media import read as media
from trainyard.bundle import BundleError, contents_of
from trainyard.contract.base import SpecDocument

MOST = 4  # runs
MAX_FILES, MAX_LINES, MAX_DIFF_LINES = 100, 3_000, 2_000  # that differ; of one of them; that are shown
LOG_LINES = 60
MAX_CHARS = 20_000  # of a text among media
PACKAGE = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*(.*?)\s*(?:\\|;.*|#.*|--hash.*)?$")

Files = Mapping[str, bytes]


class CodeSide(NamedTuple):
    run: Run
    words: str
    lines: list[DiffLine]  # against the first run's
    note: str


class MediaSide(NamedTuple):
    run: Run
    kind: str
    url: str  # of an image or a sound
    text: str
    caption: str


def code(runs: Sequence[Run], _: Mapping[str, str]) -> dict[str, object]:
    sources = RunCode.objects.in_bulk([run.pk for run in runs])
    first, *others = [(run, _digest(run, sources.get(run.pk)), _words(run, sources.get(run.pk))) for run in runs]
    base = _files(first[1])
    sides = [CodeSide(first[0], first[2], [], "")]
    for run, digest, words in others:
        own = _files(digest)
        if digest == first[1]:
            sides.append(CodeSide(run, words, [], "The same files." if digest else ""))
        elif base is None or own is None:
            sides.append(CodeSide(run, words, [], "The files of one of them are not kept here."))
        else:
            lines, note = difference(base, own)
            sides.append(CodeSide(run, words, lines, note))
    return {"sides": sides}


def _digest(run: Run, source: RunCode | None) -> str:
    if source is not None:
        return source.sha256
    found = run.spec.get("task", {}).get("code")
    return str(found.get("sha256") or "") if isinstance(found, dict) else ""


def _words(run: Run, source: RunCode | None) -> str:
    if source is not None:
        return f"{source.url} at {source.commit[:12]}: {source.subject}"
    if digest := _digest(run, None):
        return f"A folder that was sent, {digest[:12]}"
    return "No code of its own"


def _files(digest: str) -> Files | None:
    if not digest:
        return {}
    try:
        return {one.name: one.data for one in contents_of(bundle_path(digest).read_bytes()) if not one.link}
    except (OSError, BundleError):
        return None


def difference(base: Files, own: Files) -> tuple[list[DiffLine], str]:
    """Return what turns the one set of files into the other, as a patch, and what of it is left out."""
    names = sorted(name for name in {*base, *own} if base.get(name) != own.get(name))
    lines: list[str] = []
    for name in names[:MAX_FILES]:
        old, new = (_text_lines(files.get(name, b"")) for files in (base, own))
        if old is None or new is None:
            lines += [f"--- {name}", f"+++ {name}", " It is no text, or too long to be compared here."]
        else:
            before, after = (name if name in files else "/dev/null" for files in (base, own))
            lines += unified_diff(old, new, before, after, lineterm="")
        if len(lines) > MAX_DIFF_LINES:
            break
    is_cut = len(names) > MAX_FILES or len(lines) > MAX_DIFF_LINES
    note = f"{len(names):,} file{'' if len(names) == 1 else 's'} differ{'s' if len(names) == 1 else ''}."
    return diff_lines("\n".join(lines[:MAX_DIFF_LINES])), f"{note}{' More is not shown.' if is_cut else ''}"


def _text_lines(data: bytes) -> list[str] | None:
    if b"\0" in data or data.count(b"\n") > MAX_LINES:
        return None
    return data.decode(errors="replace").splitlines()


def environment(runs: Sequence[Run], _: Mapping[str, str]) -> dict[str, object]:
    sources = RunCode.objects.in_bulk([run.pk for run in runs])
    known = [packages_of(run.spec, _files(_digest(run, sources.get(run.pk))) or {}) for run in runs]
    for run, own in zip(runs, known, strict=True):
        own |= _machines(run)
    names = sorted({name for own in known for name in own})
    versions = {name: [own.get(name, "") for own in known] for name in names}
    lines = [{"name": name, "versions": found} for name, found in versions.items() if len(set(found)) > 1]
    return {"lines": lines, "num_same": len(names) - len(lines)}


def packages_of(spec: SpecDocument, files: Files) -> dict[str, str]:
    """Return what the environment of the spec asks for: packages with their versions, by the lists and locks that it
    names."""
    section = spec.get("environment")
    if not isinstance(section, dict):
        return {}
    found: dict[str, str] = {}
    for line in section.get("requirements") or ():
        name = line.partition("-r")[2].strip() if line.startswith("-r") else ""
        found |= _listed(_text(files, name)) if name else _listed(line)
    lock = str(section.get("lock") or "")
    found |= _locked(_text(files, lock)) if lock.endswith((".lock", ".toml")) else _listed(_text(files, lock))
    container = section.get("container")
    own = {"Python": section.get("python"), "container": container.get("image") if isinstance(container, dict) else ""}
    return found | {name: str(value) for name, value in own.items() if value}


def _text(files: Files, name: str) -> str:
    return files.get(name, b"").decode(errors="replace")


def _listed(text: str) -> dict[str, str]:
    found = (PACKAGE.match(line) for line in text.splitlines() if not line.lstrip().startswith(("#", "-")))
    return {one[1].lower(): one[2].removeprefix("==") or "any" for one in found if one}


def _locked(text: str) -> dict[str, str]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}
    packages = document.get("package") or document.get("packages")
    known = [one for one in packages if isinstance(one, dict) and "name" in one] if isinstance(packages, list) else []
    return {str(one["name"]).lower(): str(one.get("version", "")) for one in known}


def _machines(run: Run) -> dict[str, str]:
    """Return what the nodes have that the newest attempt ran on."""
    attempt = Attempt.objects.filter(run=run).order_by("-number").first()
    nodes = [one.node.machine for one in attempt.placements.select_related("node")] if attempt is not None else []
    known = {"Python of the nodes": [one.python for one in nodes], "torch of the nodes": [one.torch for one in nodes]}
    return {name: ", ".join(sorted({one for one in own if one})) for name, own in known.items() if any(own)}


def media_side(runs: Sequence[Run], asked: Mapping[str, str]) -> dict[str, object]:
    known = [{(one["name"], labels_text(one["labels"])): one for one in media.media_list(run.pk)} for run in runs]
    keys = sorted({name for own in known for name in own}, key=lambda name: (-sum(name in own for own in known), name))
    key = next((one for one in keys if " ".join(one) == asked.get("key", "")), keys[0] if keys else None)
    if key is None:
        return {"sides": [], "keys": []}
    items = []
    for run, own in zip(runs, known, strict=True):
        items.append(media.steps_of(run.pk, key[0], own[key]["labels"])[0] if key in own else [])
    steps = sorted({one["step"] for own in items for one in own})
    shared = [step for step in steps if all(any(one["step"] == step for one in own) for own in items if own)]
    step = int(asked["step"]) if asked.get("step", "") in map(str, steps) else next(reversed(shared or steps), 0)
    sides = []
    for run, logged in zip(runs, items, strict=True):
        sides.append(_media_side(run, next((one for one in logged if one["step"] == step), None)))
    return {
        "sides": sides,
        "keys": [(" ".join(one), " ".join(one).strip(), one == key) for one in keys],
        "steps": [(one, one == step) for one in steps],
    }


def _media_side(run: Run, item: media.MediaItem | None) -> MediaSide:
    row = media.find(run.pk, item["id"]) if item else None
    if row is None:
        return MediaSide(run, "", "", "", "")
    url = f"/api/v1/runs/{run.pk}/media/{row.pk}/file" if row.kind in ("image", "audio", "video") else ""
    is_read = row.kind == "text" and "unreadable" not in row.meta
    text = str(media.content(row).get("text", ""))[:MAX_CHARS] if is_read else str(row.meta.get("unreadable", ""))
    return MediaSide(run, row.kind, url, text, str(row.meta.get("caption", "")))


def labels_text(labels: Mapping[str, str]) -> str:
    return " ".join(f"{name} {value}" for name, value in sorted(labels.items()))


def logs(runs: Sequence[Run], _: Mapping[str, str]) -> dict[str, object]:
    return {"sides": [{"run": run, "lines": end_of_log(run.pk, LOG_LINES)} for run in runs]}


SIDES = {"code": code, "environment": environment, "media": media_side, "logs": logs}
