"""Reports as pages show them: Markdown without HTML of its own, with blocks that are live or pinned."""

from datetime import datetime
from typing import Any

import numpy as np
from django.template.loader import render_to_string
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline

from dashboard.pages.reports.blocks import FIELDS, BlockError, read_block
from dashboard.pages.shared.still import still_charts
from runs.models import Project, Report, ReportVersion, Run
from runs.records.points.read import Curve
from runs.rights.access import Someone, visible_runs
from trainyard.contract.base import JsonObject

MAX_BLOCKS = 100  # numbers in the text included
SCHEMES = ("http://", "https://", "mailto:")
OPEN, CLOSE = "{{", "}}"


def render_report(report: Report, version: ReportVersion, viewer: Someone) -> SafeString:
    """Return the text as the viewer may see it. For a guest that is whoever let them in."""
    return draw(version.body, Shown(viewer, report.project, version.pinned, version.at))


def draw(body: str, shown: "Shown") -> SafeString:
    env: dict[str, Any] = {"shown": shown}
    tokens = MARKDOWN.parse(body, env)
    for token in tokens:
        if token.type.startswith("heading"):  # the title of the page is above all of them
            token.tag = f"h{min(6, int(token.tag[1]) + 1)}"
    return mark_safe(MARKDOWN.renderer.render(tokens, MARKDOWN.options, env))


def pinned_now(body: str, viewer: Someone, project: Project) -> JsonObject:
    """Return what the blocks show now, by their text. Names of people are not kept: who is erased is nowhere."""
    shown = Shown(viewer, project)
    draw(body, shown)
    for data in shown.found.values():
        if data.get("kind") == "table" and "user" in data["columns"]:
            at = data["columns"].index("user")
            data["columns"].pop(at)
            for cells in data["parts"]:
                cells.pop(at)
    return shown.found


class Shown:
    """What the blocks of a text show to the viewer, by their text: as it was pinned at that time, else as it is now."""

    def __init__(
        self, viewer: Someone, project: Project, pinned: JsonObject | None = None, at: datetime | None = None
    ) -> None:
        self.viewer, self.project = viewer, project
        self.found: JsonObject = dict(pinned or {})
        self.pinned_at = at if pinned is not None else None

    def block(self, kind: str, text: str, line: int = 0) -> SafeString:
        """Draw the block, whose first line has this number in the report."""
        key = f"{kind}\n{text}"
        if key not in self.found:
            self.found[key] = self._read(kind, text, line)
        data = self._for_viewer(self.found[key])
        context = {**data, "pinned_at": self.pinned_at, "is_number": kind == "number"}
        if kind == "chart" and data.get("parts"):
            context["charts"] = _charts(data)
        elif data.get("parts"):
            context["rows"] = list(zip(data["runs"], data["parts"], strict=True))
            context["lines"] = [(name, [part[at] for part in data["parts"]]) for at, name in enumerate(data["columns"])]
        return mark_safe(render_to_string("reports/_block.html", context).strip())

    def _read(self, kind: str, text: str, line: int) -> JsonObject:
        if len(self.found) >= MAX_BLOCKS:
            return {"problem": f"A report shows at most {MAX_BLOCKS} blocks and numbers."}
        try:
            return read_block(kind, text, self.viewer, self.project)
        except BlockError as error:
            return {"problem": f"Line {line + error.line}: {error}" if line else str(error)}

    def _for_viewer(self, data: JsonObject) -> JsonObject:
        """Leave out pinned runs that the viewer may not see. Of one that was deleted since, the project kept this."""
        if self.pinned_at is None or "problem" in data:
            return data
        ids = [one["id"] for one in data["runs"]]
        seen = set(visible_runs(self.viewer).filter(pk__in=ids).values_list("pk", flat=True))
        there = set(Run.objects.filter(pk__in=ids).values_list("pk", flat=True))
        kept = [
            at
            for at, one in enumerate(data["runs"])
            if one["id"] in seen or (one["id"] not in there and one["project"] == self.project.pk)
        ]
        runs, parts = ([data[name][at] for at in kept] for name in ("runs", "parts"))
        return {**data, "runs": runs, "parts": parts, "num_hidden": data["num_hidden"] + len(ids) - len(kept)}


def _charts(data: JsonObject) -> SafeString:
    curves = [
        Curve(run["id"], **{**one, "columns": {name: np.array(v, float) for name, v in one["columns"].items()}})
        for run, part in zip(data["runs"], data["parts"], strict=True)
        for one in part
    ]
    return still_charts(data["columns"], curves, {one["id"]: (one["colour"], one["name"]) for one in data["runs"]})


class _Markdown(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        return is_of_site(url) or url.lower().startswith(SCHEMES)


def is_of_site(url: str) -> bool:
    """Return whether the address leads to this site: nobody else is asked for an image."""
    return url.startswith(("/", "#", "?", ".")) and not url.startswith(("//", "/\\", "/%5C"))


def _fence(self: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    kind = (tokens[at].info.split() or [""])[0]
    if kind not in FIELDS:
        return str(self.fence(tokens, at, options, env))
    return env["shown"].block(kind, tokens[at].content, (tokens[at].map or [0])[0] + 1)  # type: ignore[no-any-return]


def _image(self: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    if is_of_site(str(tokens[at].attrs["src"])):
        return str(self.image(tokens, at, options, env))
    return f"{escape(tokens[at].content)} <em>(an image of another site is not shown)</em>"


def _number(state: StateInline, silent: bool) -> bool:
    """Take ``{{ run/ID val/loss min }}`` as one word of the text, before stars and lines in it mean anything."""
    end = state.src.find(CLOSE, state.pos, state.pos + 400)
    if not state.src.startswith(OPEN, state.pos) or end < 0:
        return False
    text = " ".join(state.src[state.pos + len(OPEN) : end].split())
    if not text.startswith("run/"):
        return False
    if not silent:
        state.push("number", "", 0).content = text
    state.pos = end + len(CLOSE)
    return True


def _draw_number(self: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    return env["shown"].block("number", tokens[at].content)  # type: ignore[no-any-return]


MARKDOWN = _Markdown("commonmark", {"html": False}).enable(["table", "strikethrough"])
MARKDOWN.inline.ruler.before("emphasis", "number", _number)
MARKDOWN.add_render_rule("fence", _fence)
MARKDOWN.add_render_rule("image", _image)
MARKDOWN.add_render_rule("number", _draw_number)
