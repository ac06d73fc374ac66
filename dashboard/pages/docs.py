"""The documentation: the Markdown of docs/, as pages, as it is, and searched. Pages and order are those of
docs/index.md."""

import posixpath
import re
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import escape, format_html_join
from django.utils.safestring import SafeString
from markdown_it import MarkdownIt
from markdown_it.token import Token

from dashboard.home import ROOT
from dashboard.pages.shared.frame import page, show
from runs.rights.access.operations import SIGNED_IN

FOLDER = ROOT / "docs"
INDEX = "index.md"
LISTED = re.compile(r"^(?:## (.+)|- \[(.+?)\]\((\S+?\.md)\): (.+))$", re.MULTILINE)
NAME = re.compile(r"(?:[\w@-][\w@.-]*/)*[\w@-][\w@.-]*", re.ASCII)  # no part begins with a dot
PICTURES = {"jpg": "image/jpeg", "png": "image/png"}
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
MOST_FOUND, MOST_CHARACTERS = 40, 240  # sections, and of each


def listed() -> list[tuple[str, list[dict[str, str]]]]:
    """Return the headings of the index, each with its pages."""
    found: list[tuple[str, list[dict[str, str]]]] = []
    for heading, title, name, sentence in LISTED.findall(_read(INDEX).decode()):
        if heading:
            found.append((heading, []))
        else:
            found[-1][1].append({"title": title, "name": name, "sentence": sentence, "url": _page_url(name)})
    return found


@page(get=SIGNED_IN)
def document(request: HttpRequest, name: str = "") -> HttpResponse:
    """Draw the page, whose name ends with a slash. Any other file of the folder is sent as it is."""
    if name == "llms.txt":
        return HttpResponse(_for_models(request), "text/plain; charset=utf-8")
    if name and not name.endswith("/"):
        kind = PICTURES.get(name.rpartition(".")[2], "text/plain; charset=utf-8")
        return HttpResponse(_read(name), "text/markdown; charset=utf-8" if name.endswith(".md") else kind)
    if words := request.GET.get("q", "").strip()[:100]:
        shown = {"parts": listed(), "name": INDEX, "title": f"Search: {words}", "words": words}
        return show(request, "docs/search.html", {**shown, "found": search(words), "most": MOST_FOUND})
    name = f"{name[:-1]}.md" if name else INDEX
    tokens, headings = parse(_read(name).decode(), name)
    body = SafeString(MARKDOWN.renderer.render(tokens, MARKDOWN.options, {}))
    title = headings[0][2] if headings else name
    shown = {"parts": listed(), "name": name, "title": title, "body": body}
    return show(request, "docs/page.html", {**shown, "headings": [one for one in headings if one[0] == "h2"]})


# Search: sections that have all of the words, those that have more of them in their titles first.


class Section(NamedTuple):
    title: str  # of its page, and its own behind a point
    url: str
    text: str


def search(words: str) -> list[tuple[Section, SafeString]]:
    """Return the sections, each with a part of its text as HTML, in which the words are marked."""
    wanted = words.lower().split()
    like = re.compile(f"({'|'.join(map(re.escape, wanted))})", re.IGNORECASE)
    found = [one for one in _sections() if all(word in f"{one.title} {one.text}".lower() for word in wanted)]
    found.sort(key=lambda one: -sum(word in one.title.lower() for word in wanted))  # keeps the order of the pages
    return [(one, _marked(one.text, like)) for one in found[:MOST_FOUND]]


def _marked(text: str, like: re.Pattern[str]) -> SafeString:
    hit = like.search(text)
    begin = text.rfind(" ", 0, max(0, hit.start() - MOST_CHARACTERS // 3) if hit else 0) + 1
    end = begin + MOST_CHARACTERS
    pieces = like.split(f"{'… ' * (begin > 0)}{text[begin:end]}{' …' * (end < len(text))}")
    return format_html_join("", "{}<mark>{}</mark>", zip(pieces[:-1:2], pieces[1::2], strict=True)) + escape(pieces[-1])


@cache
def _sections() -> list[Section]:
    """All sections of all pages, read once: they are those of the version that runs."""
    found = []
    for one in (one for _, pages in listed() for one in pages):
        title, url, texts = one["title"], one["url"], list[str]()
        tokens, _ = parse(_read(one["name"]).decode(), one["name"])
        for token, before in zip(tokens, [None, *tokens], strict=False):
            if before is not None and before.type == "heading_open" and before.tag != "h1":
                found.append(Section(title, url, " ".join(texts)))
                title, url, texts = f"{one['title']} · {token.content}", f"{one['url']}#{before.attrs['id']}", []
            elif (token.children or token.type == "fence") and (before is None or before.type != "heading_open"):
                parts = token.children or [token]
                texts.append("".join(" " if part.type == "softbreak" else part.content for part in parts))
        found.append(Section(title, url, " ".join(texts)))
    return [one._replace(title=one.title.replace("`", "")) for one in found if one.text]


def parse(text: str, name: str) -> tuple[list[Token], list[tuple[str, str, str]]]:
    """Return the tokens, with links of this site and anchors, and (tag, anchor, words) of each heading."""
    tokens, headings, used = MARKDOWN.parse(text), [], dict[str, int]()
    for token, following in pairwise(tokens):
        if token.type == "heading_open":
            words = "".join(one.content for one in following.children or [])
            anchor = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")  # as GitHub makes them
            used[anchor] = used.get(anchor, -1) + 1
            token.attrs["id"] = f"{anchor}-{used[anchor]}" if used[anchor] else anchor
            headings.append((token.tag, str(token.attrs["id"]), words))
        for one in following.children or []:
            if one.type == "image" and not (FOLDER / posixpath.dirname(name) / str(one.attrs["src"])).is_file():
                one.type = "text"  # a wheel has no pictures
            for key in {"href", "src"} & one.attrs.keys():
                if (address := _address(str(one.attrs.pop(key)), name)) is not None:
                    one.attrs[key] = address
        if "style" in token.attrs:  # of a cell, text-align: pages allow no inline style
            token.attrs["align"] = str(token.attrs.pop("style")).rpartition(":")[2]
    return tokens, headings


def _address(url: str, name: str) -> str | None:
    """Return where the link leads on this site; None for a file outside of the documentation, or not in the wheel."""
    if re.match(r"[a-z]+:|[/#]", url):
        return url
    path, hash_, anchor = url.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
    return _page_url(path) + hash_ + anchor if path[:2] != ".." and (FOLDER / path).exists() else None


def _page_url(name: str) -> str:
    if name == INDEX:
        return reverse("docs")
    return reverse("document", args=(f"{name[:-3]}/" if name.endswith(".md") else name,))


def _for_models(request: HttpRequest) -> str:
    """The index in the form of llmstxt.org: with whole addresses, of the Markdown."""

    def link(found: re.Match[str]) -> str:
        return f"]({request.build_absolute_uri(reverse('document', args=(found[1],)))})"

    title, summary, rest = _read(INDEX).decode().split("\n\n", 2)
    return re.sub(r"\]\((\S+?\.md)\)", link, f"{title}\n\n> {summary}\n\n{rest}")


def _read(name: str) -> bytes:
    path: Any = FOLDER / name
    if not NAME.fullmatch(name) or not path.is_file() or not path.resolve().is_relative_to(FOLDER.resolve()):
        raise Http404(f"The documentation has no file {name!r}.")
    return bytes(path.read_bytes())
