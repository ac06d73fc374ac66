"""Sphinx's settings: `make docs` makes build/docs of this folder. docs/decisions/deploying.md says why."""

import posixpath
import re
import sys
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the SDK, whose docstrings are a page

import trainyard

project = "Trainyard"
author = "Trainyard's authors"
version = release = trainyard.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"Trainyard {release}"
html_show_copyright = False
myst_heading_anchors = 6  # made as GitHub makes them
exclude_patterns = ["deploy/**", "kubernetes/**"]  # files that pages link to
autodoc_typehints = "signature"
autodoc_member_order = "bysource"

# The index in the product lists Markdown; what only Sphinx can draw stands behind the pages of its heading.
DRAWN_HERE = {"Reference": ["The SDK from its docstrings <reference/sdk>"]}
LISTED = re.compile(r"^(?:## (.+)|- \[(.+?)\]\((\S+?)\.md\): .+)$", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[([^\]\[]+)\]\((\.\./[^)\s]+)\)")
PLAIN_BLOCKS = ("chart", "compare", "csv", "jsonl", "media", "spec", "table")  # Pygments knows none of them


def setup(app: Sphinx) -> None:
    app.connect("source-read", prepare)
    for name in PLAIN_BLOCKS:
        app.add_lexer(name, TextLexer)


def prepare(app: Sphinx, docname: str, source: list[str]) -> None:
    """Make a link that leaves the folder its words, as the product does; make the index the navigation."""

    def words_or_link(found: re.Match[str]) -> str:
        leaves = posixpath.normpath(posixpath.join(posixpath.dirname(docname), found[2])).startswith("..")
        return found[1] if leaves else found[0]

    source[0] = LINK.sub(words_or_link, source[0])
    if docname == "index":
        source[0] += navigation(source[0])


def navigation(index: str) -> str:
    """A hidden table of contents for each heading of the index, with the pages listed below it."""
    parts: dict[str, list[str]] = {}
    for heading, title, name in LISTED.findall(index):
        if heading:
            parts[heading] = []
        else:
            parts[next(reversed(parts))].append(f"{title} <{name}>")
    blocks = []
    for heading, entries in parts.items():
        listed = "\n".join([*entries, *DRAWN_HERE.get(heading, [])])
        blocks.append(f"\n\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{listed}\n```\n")
    return "".join(blocks)
