"""Run a JavaScript tool of node_modules: `python3 -m tests.javascript biome check static`.

npm's own links in node_modules/.bin want a `node` on PATH, which a machine need not have.
"""

from __future__ import annotations

import os
import sys

from dashboard.setup.node import find_node
from dashboard.setup.steps import ROOT

TOOLS = {"biome": "@biomejs/biome/bin/biome", "tsc": "typescript/bin/tsc"}


def command(tool: str, words: list[str]) -> list[str]:
    return [str(find_node()), str(ROOT / "node_modules" / TOOLS[tool]), *words]


if __name__ == "__main__":
    words = command(sys.argv[1], sys.argv[2:])
    os.chdir(ROOT)
    os.execv(words[0], words)
