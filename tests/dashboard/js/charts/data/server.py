"""What the page asks about series, answered as the server writes it, from runs that a test holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
from playwright.sync_api import Page, Route

from runs.api.metrics.columns import CONTENT_TYPE, as_columns
from runs.records.points.charts.series import Curve

ORIGIN = 30.0  # when each run started
Data = dict[str, list[float]]


@dataclass
class Server:
    """Runs by id; of each its cursor and its series by name. ``refuse`` may answer in the place of the data."""

    runs: dict[str, dict[str, Data]]
    cursor: int = 10
    refuse: Callable[[dict[str, list[str]]], int | None] = lambda asked: None
    asked: list[dict[str, list[str]]] = field(default_factory=list)
    kind: str = "raw"

    def attach(self, page: Page) -> None:
        page.route("http://modules.invalid/api/**", self.answer)

    def answer(self, route: Route) -> None:
        url = urlsplit(route.request.url)
        asked = parse_qs(url.query)
        if url.path == "/api/v1/series/data":
            return self.data(route, asked)
        runs = asked.get("run") or [url.path.removeprefix("/api/v1/runs/")]
        if not all(run in self.runs for run in runs):
            return route.fulfill(status=404)
        items = [{"run": run, "name": name, "labels": {}} for run in runs for name in self.runs[run]]
        items = [one for one in items if asked.get("match", [""])[0] in one["name"]]
        items = [one for one in items if one["name"] in asked.get("name", [one["name"]])]
        items = items[: int(asked.get("limit", [len(items)])[0])]
        return route.fulfill(json={"items": items, "next": None} if url.path == "/api/v1/series" else {"id": runs[0]})

    def data(self, route: Route, asked: dict[str, list[str]]) -> None:
        self.asked.append(asked)
        status = self.refuse(asked) or (200 if all(run in self.runs for run in asked["run"]) else 404)
        if status != 200:
            return route.fulfill(status=status)
        curves = [
            Curve(run, name, {}, 1, self.kind_of(asked), self.columns(run, name, asked))  # type: ignore[arg-type]
            for run in asked["run"]
            for name in asked["name"]
            if name in self.runs[run]
        ]
        head: dict[str, Any] = {"cursors": dict.fromkeys(asked["run"], self.cursor)}
        if asked.get("x") == ["relative"]:
            head["origins"] = dict.fromkeys(asked["run"], ORIGIN)
        body = as_columns(head, curves, is_many=True)
        return route.fulfill(body=body, content_type=CONTENT_TYPE)

    def kind_of(self, asked: dict[str, list[str]]) -> str:
        return "raw" if "from" in asked else self.kind

    def columns(self, run: str, name: str, asked: dict[str, list[str]]) -> dict[str, Any]:
        steps, values = (np.array(self.runs[run][name][column], float) for column in ("step", "value"))
        if "from" in asked:  # a step takes a second
            shift = -ORIGIN if asked["x"] == ["relative"] else 0
            inside = (steps + shift >= float(asked["from"][0])) & (steps + shift <= float(asked["to"][0]))
            steps, values = steps[inside], values[inside]
        elif self.kind == "buckets":
            steps, values = steps[9::10], values[9::10]
            return {"step": steps, "time": steps, **dict.fromkeys(("min", "max", "mean", "last", "count"), values)}
        return {"step": steps, "time": steps, "value": values}


def line(num: int, slope: float = 1) -> Data:
    return {"step": list(range(num)), "value": [slope * step for step in range(num)]}


def message(start: int, cursor: int, name: str, step: int, value: float) -> str:
    series = [{"name": name, "labels": {}, "attempt": 1, "step": [step], "time": [step], "value": [value]}]
    return json.dumps({"type": "points", "from": start, "cursor": cursor, "series": series})
