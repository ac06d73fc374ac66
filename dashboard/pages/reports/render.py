"""Reports as pages show them: Markdown without HTML of its own, with blocks that are live or pinned."""

import re
from datetime import datetime
from typing import Any

import numpy as np
from django.template.loader import render_to_string
from django.utils.html import escape
from django.utils.safestring import SafeString
from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline

from dashboard.pages.reports.blocks import FIELDS, BlockError, read_block
from dashboard.pages.shared.still import still_charts
from runs.models import Project, Report, ReportVersion, Run
from runs.records.points.read import Curve
from runs.rights.access import Someone, visible_runs
from trainyard.contract.base import JsonObject

MAX_BLOCKS = 100  # numbers in the text included
NUMBER = re.compile(r"\{\{\s*(run/[^{}]{1,300}?)\s*\}\}")


def render_report(report: Report, version: ReportVersion, viewer: Someone) -> SafeString:
    """Return the text as the viewer may see it. For a guest that is whoever let them in."""
    return Shown(viewer, report.project, version.pinned, version.at).draw(version.body)


class Shown:
    """What the blocks of a text show to the viewer, by their text: as it was pinned at that time, else as it is now."""

    def __init__(
        self,
        viewer: Someone,
        project: Project,
        pinned: JsonObject | None = None,
        at: datetime | None = None,
        *,
        is_for_guest: bool = False,
    ) -> None:
        """``is_for_guest``: runs of the project alone, whatever others the viewer sees, who let the guest in."""
        self.viewer, self.project = viewer, project
        seen = visible_runs(viewer)
        self.seen = seen.filter(project=project) if is_for_guest else seen
        self.found: JsonObject = dict(pinned or {})
        self.pinned_at = None if pinned is None else at

    def draw(self, body: str) -> SafeString:
        env: dict[str, Any] = {"shown": self}
        tokens = MARKDOWN.parse(body, env)
        for token in tokens:
            if token.type.startswith("heading"):  # the title of the page is above all of them
                token.tag = f"h{min(6, int(token.tag[1]) + 1)}"
            if "style" in token.attrs:  # of a cell, text-align: pages allow no inline style
                token.attrs["align"] = str(token.attrs.pop("style")).rpartition(":")[2]
        return SafeString(MARKDOWN.renderer.render(tokens, MARKDOWN.options, env))

    def block(self, kind: str, text: str, line: int = 0) -> str:
        """Draw the block, which the line of the report with this number names."""
        key = f"{kind}\n{text}"
        if key not in self.found:
            self.found[key] = self._read(kind, text, line)
        data = self.found[key] if self.pinned_at is None else self._seen(self.found[key])
        runs, parts = data.get("runs", []), data.get("parts", [])
        context = {
            **data,
            "kind": kind,
            "pinned_at": self.pinned_at,
            "rows": list(zip(runs, parts, strict=True)),
            "charts": _charts(data) if kind == "chart" and parts else "",
            "lines": list(zip(data.get("columns", []), zip(*parts, strict=True), strict=False)),
        }
        return render_to_string("reports/_block.html", context).strip()

    def _read(self, kind: str, text: str, line: int) -> JsonObject:
        if len(self.found) >= MAX_BLOCKS:
            return {"problem": f"A report shows at most {MAX_BLOCKS} blocks and numbers."}
        try:
            return read_block(kind, text, self.viewer, self.project, self.seen)
        except BlockError as error:
            return {"problem": f"Line {line + error.line}: {error}" if line else str(error)}

    def _seen(self, data: JsonObject) -> JsonObject:
        """Leave out pinned runs that the viewer may not see. Of its own that were deleted the project keeps this."""
        runs = data.get("runs", [])
        ids = [one["id"] for one in runs]
        seen = {one["id"] for one in runs if one["project"] == self.project.pk}
        seen -= set(Run.objects.filter(pk__in=ids).values_list("pk", flat=True))
        seen |= set(self.seen.filter(pk__in=ids).values_list("pk", flat=True))
        kept = [pair for pair in zip(runs, data.get("parts", []), strict=True) if pair[0]["id"] in seen]
        num_hidden = data.get("num_hidden", 0) + len(runs) - len(kept)
        return {**data, "runs": [one for one, _ in kept], "parts": [one for _, one in kept], "num_hidden": num_hidden}


def _charts(data: JsonObject) -> SafeString:
    curves = [
        Curve(run["id"], **{**one, "columns": {name: np.array(v, float) for name, v in one["columns"].items()}})
        for run, part in zip(data["runs"], data["parts"], strict=True)
        for one in part
    ]
    return still_charts(data["columns"], curves, {one["id"]: (one["colour"], one["name"]) for one in data["runs"]})


class _Markdown(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        return is_of_site(url) or url.lower().startswith(("http://", "https://", "mailto:"))


def is_of_site(url: str) -> bool:
    """Return whether the address leads to this site: nobody else is asked for an image."""
    return url.startswith(("/", "#", "?", ".")) and not url.startswith(("//", "/\\", "/%5C"))


def _fence(self: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    kind = (tokens[at].info.split() or [""])[0]
    if kind not in FIELDS:
        return str(self.fence(tokens, at, options, env))
    return str(env["shown"].block(kind, tokens[at].content, tokens[at].map[0] + 1))


def _image(self: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    if is_of_site(tokens[at].attrs["src"]):
        return str(self.image(tokens, at, options, env))
    return f"{escape(tokens[at].content)} <em>(an image of another site is not shown)</em>"


def _number(self: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    return str(env["shown"].block("number", tokens[at].content))


def _take_number(state: StateInline, silent: bool) -> bool:
    """Take ``{{ run/ID val/loss min }}`` as one word of the text, before stars and lines in it mean anything."""
    match = NUMBER.match(state.src, state.pos)
    if match is not None and not silent:
        state.push("number", "", 0).content = match[1]
    state.pos = match.end() if match else state.pos
    return match is not None


MARKDOWN = _Markdown("commonmark", {"html": False}).enable(["table", "strikethrough"])
MARKDOWN.inline.ruler.before("emphasis", "number", _take_number)
for name, rule in (("fence", _fence), ("image", _image), ("number", _number)):
    MARKDOWN.add_render_rule(name, rule)
