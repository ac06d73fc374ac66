"""Scripts and styles as they are served: few files, put together when the static files are collected.

The sources stay modules and stylesheets that a browser could load one by one. A script that a page names is one file;
what two of them have is in the start's, so that no module is evaluated twice. See docs/decisions/javascript.md.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from django.conf import settings

START = "js/app.js"
STYLES = "css"
# Bare names that our modules import, and the file of the npm package that each means.
PACKAGES = {
    "@xterm/addon-fit": "npm/@xterm/addon-fit/lib/addon-fit.mjs",
    "@xterm/xterm": "npm/@xterm/xterm/lib/xterm.mjs",
    "dompurify": "npm/dompurify/dist/purify.es.mjs",
    "echarts": "npm/echarts/dist/echarts.esm.min.mjs",
    "marked": "npm/marked/lib/marked.esm.js",
}
IMPORT = re.compile(r"""^import\s+(?:([^"'`;]*?)\s+from\s+)?["']([^"']+)["'];\n""", re.MULTILINE)
IMPORT_LATER = re.compile(r"""\bimport\("(\.[^"]+)"\)""")
EXPORT = re.compile(r"^export (?=(?:(?:async )?function|class|const) (\w+))", re.MULTILINE)
EXPORT_LIST = re.compile(r"^export \{ ([\w, ]+) \};\n", re.MULTILINE)
INSIDE = r"(?:(?!\*/).)*"
COMMENT = re.compile(rf"^[ \t]*(?://[^\n]*|/\*\*{INSIDE}\*/[ \t]*)\n|/\*\* @{INSIDE}\*/ ?", re.MULTILINE | re.DOTALL)
IMPORT_STYLE = re.compile(r'^@import url\("([^"]+)"\)(?: layer\((\w+)\))?;\n', re.MULTILINE)
# Rules of npm's stylesheets that no page of ours uses, about siblings of any kind: for their sake a browser styles a
# whole table anew when one row of it comes or goes.
ANY_SIBLING = re.compile(r"(?:legend\+\*|\.divide-[^{}]+)\{[^{}]*\}")
STYLE_COMMENT = re.compile(r"/\*(?!!).*?\*/\n?", re.DOTALL)


def root() -> Path:
    return Path(settings.BASE_DIR, "static").resolve()


def beside(path: str, name: str) -> str:
    """Return the static path of what the file ``path`` calls ``name``: ``js/a/b.js``, ``../c.js`` -> ``js/c.js``."""
    return os.path.normpath(Path(path).parent / name)


@cache
def script(name: str) -> tuple[str, ...]:
    """Return the static paths of the module ``js/<name>`` and of all that it imports at once, in the order in which
    a browser evaluates them: itself last. What it imports later is a script of its own.

    Raises ValueError where modules import each other in a circle.
    """
    found: dict[str, None] = {}

    def add(path: str, above: tuple[str, ...]) -> None:
        if path in above:
            raise ValueError(f"{path} imports itself by way of {', '.join(above[above.index(path) + 1 :])}")
        if path in found:
            return
        if path not in PACKAGES.values():
            for _, imported in IMPORT.findall((root() / path).read_text()):
                add(PACKAGES.get(imported) or beside(path, imported), (*above, path))
        found[path] = None

    add(f"js/{name}", ())
    return tuple(found)


def modules_of(path: str) -> list[str]:
    return [one for one in script(path.removeprefix("js/")) if one not in PACKAGES.values()]


def later_scripts() -> list[str]:
    """Return the modules that others import once they are needed, by ``import("./x.js")``."""
    found: dict[str, None] = {}
    waiting = [START]
    while waiting:
        for path in modules_of(waiting.pop()):
            text = COMMENT.sub("", (root() / path).read_text())
            new = [one for name in IMPORT_LATER.findall(text) if (one := beside(path, name)) not in found]
            found |= dict.fromkeys(new)
            waiting += new
    return list(found)


def bundles() -> dict[str, str]:
    """Return the text of each script that a page or another script names, by its static path."""
    later = {path: modules_of(path) for path in later_scripts()}
    times = Counter(path for modules in later.values() for path in modules)
    start = dict.fromkeys([*modules_of(START), *(path for path, num in times.items() if num > 1)])
    texts = {START: bundle(START, start, {}, exported=start)}
    for path, modules in later.items():
        own = [one for one in modules if one not in start]
        texts[path] = bundle(path, own, {one: START for one in modules if one in start}, exported=())
    return texts


def bundle(path: str, modules: Iterable[str], elsewhere: Mapping[str, str], exported: Iterable[str]) -> str:
    """Put modules into one that stands at ``path``, each in a function of its own, so that its names stay its own.

    elsewhere: modules that it takes from other bundles, and which. exported: those that it hands to other bundles; else
    it exports what the module ``path`` does.
    """
    own = {one: wrapped(one, path) for one in modules}
    packages = {name: file for name, file in PACKAGES.items() if any(names(file) in text for text in own.values())}
    head = [f'import * as {names(file)} from "{name}";\n' for name, file in packages.items()]
    head += [
        f'import {{ {names(one)} }} from "{relative(path, bundle)}";\n'
        for one, bundle in elsewhere.items()
        if one == path or any(names(one) in text for text in own.values())
    ]
    if exported:
        tail = f"export {{ {', '.join(map(names, exported))} }};\n"
    else:
        tail = "".join(f"export const {one} = {names(path)}.{one};\n" for one in public(path))
    return "".join([*head, *own.values(), tail])


def wrapped(path: str, bundle: str) -> str:
    """Return a module as ``const $module = (() => { its text; return {what it exports}; })();``."""
    text = COMMENT.sub("", (root() / path).read_text())
    text = IMPORT.sub(lambda found: imported(path, found[1], found[2]), text)
    text = IMPORT_LATER.sub(lambda found: f'import("{relative(bundle, beside(path, found[1]))}")', text)
    text = EXPORT_LIST.sub("", EXPORT.sub("", text))
    if left := re.search(r"^(?:import|export)\b(?!\().*", text, re.MULTILINE):
        raise ValueError(f"{path} has a statement that no bundle can hold: {left[0]}")
    return f"const {names(path)} = (() => {{\n{text}return {{ {', '.join(public(path))} }};\n}})();\n"


def imported(path: str, what: str, name: str) -> str:
    """Return an import as a statement that takes from the module's constant: ``{ a as b }`` -> ``{ a: b }``."""
    module = names(PACKAGES.get(name) or beside(path, name))
    if not what:
        return ""
    if what.startswith("{"):
        return f"const {re.sub(r' as ', ': ', what)} = {module};\n"
    whole = re.fullmatch(r"\* as (\w+)", what)
    return f"const {whole[1]} = {module};\n" if whole else f"const {{ default: {what} }} = {module};\n"


def public(path: str) -> list[str]:
    text = (root() / path).read_text()
    return EXPORT.findall(text) + [one for listed in EXPORT_LIST.findall(text) for one in listed.split(", ")]


def names(path: str) -> str:
    """Return the constant that holds a module in a bundle: ``js/charts/data/names.js`` -> ``$js_charts_data_names``."""
    return "$" + re.sub(r"\W", "_", path.rpartition(".")[0])


def relative(path: str, other: str) -> str:
    """Return the address of a static file from another one, as an import needs it."""
    found = os.path.relpath(other, Path(path).parent)
    return found if found.startswith(".") else f"./{found}"


def styles() -> dict[str, str]:
    """Return the text of each stylesheet that imports others, with those in it, by its static path."""
    own = [path.relative_to(root()).as_posix() for path in sorted((root() / STYLES).glob("*.css"))]
    return {path: style(path) for path in own if IMPORT_STYLE.search((root() / path).read_text())}


def style(path: str) -> str:
    """Return a stylesheet of ours, or of npm's, with what it imports in it; each lies in a folder of its own kind."""
    is_ours = not path.startswith("npm/")
    source = root() / path if is_ours else settings.BASE_DIR / "node_modules" / path.removeprefix("npm/")
    text = STYLE_COMMENT.sub("", source.read_text().removeprefix('@charset "UTF-8";'))
    if not is_ours and re.search(r"url\((?![\"']?data:)", text):
        raise ValueError(f"{path} names files beside it, which a stylesheet elsewhere would not find")

    text = text if is_ours else ANY_SIBLING.sub("", text)

    def inside(found: re.Match[str]) -> str:
        content = style(beside(path, found[1]))
        return f"@layer {found[2]} {{\n{content}\n}}\n" if found[2] else content

    return IMPORT_STYLE.sub(inside, text)
