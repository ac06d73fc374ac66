"""``python -m tests.printed_pages.rest [PAGE]`` prints the operations of the REST API, as docs/rest_*.md list them."""

import re
import sys
from collections import defaultdict

from tests.printed_pages import django_is_ready

django_is_ready()

from runs.api import api  # noqa: E402
from trainyard.contract.base import JsonObject  # noqa: E402

METHODS = ("get", "post", "put", "patch", "delete")
PAGING = {"cursor", "limit"}  # the page explains them once
FOR_NODES, OF_NODES = " (nodes only)", "Nodes only"
CHANGES = "Changes of runs"
PAGES = {  # of docs/, each with its sections
    "rest_run_changes": (CHANGES, "Plans"),
    "rest_runs": ("Runs",),
    "rest_series": ("Series", "Points"),
    "rest_logs_files": ("Logs", "Media", "Files"),
    "rest_sweeps": ("Jobs", "Sweeps", "Datasets", "Bundles"),
    "rest_clusters": ("Clusters", "Nodes", OF_NODES),
    "rest_projects": ("Projects", "Secrets", "Reports"),
    "rest_people": ("People", "Audit", "Notices", "Health"),
}
EXAMPLE = re.compile(r"\s*(Example: `.*`)$")


def documented(page: str) -> str:
    """Return the operations of one page in Markdown: a heading for each resource."""
    document = api.get_openapi_schema(path_prefix="/api/v1/")
    sections: dict[str, list[str]] = defaultdict(list)
    explained: set[tuple[str, str]] = set()  # fields by section: a name is explained where it stands first
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method in METHODS:
                section = OF_NODES if operation["summary"].endswith(FOR_NODES) else operation["tags"][0].capitalize()
                section = CHANGES if section == "Runs" and method != "get" else section
                fields = [*_query(operation), *_body(operation, document["components"]["schemas"])]
                known = [f"`{name}`" if (section, words) in explained else words for name, words in fields]
                explained |= {(section, words) for _, words in fields}
                heading = f"### `{method.upper()} {path.removeprefix('/api/v1')}`"
                sections[section].append("\n".join([heading, *_lines(operation, known)]))
    return "\n\n".join(f"## {title}\n\n" + "\n\n".join(sections[title]) for title in PAGES[page]) + "\n"


def _lines(operation: JsonObject, fields: list[str]) -> list[str]:
    if operation["summary"].endswith(FOR_NODES):  # nobody calls it by hand
        return [_summary(operation)]
    words = " ".join(operation.get("description", "").split())
    about, example = f"{_summary(operation)} {EXAMPLE.sub('', words)}".strip(), EXAMPLE.findall(words)
    is_shown = all(re.search(rf'[?&"]{one.strip("`")}["=]', "".join(example)) for one in fields)  # without more to say
    return [line for line in (about, "" if is_shown else "; ".join(fields), *example) if line]


def _summary(operation: JsonObject) -> str:
    """Return its title as a sentence, unless that is the name of the handler alone."""
    title, handler = str(operation["summary"]).removesuffix(FOR_NODES), str(operation["operationId"])
    return "" if handler.endswith(title.lower().replace(" ", "_")) else f"{title}."


def _query(operation: JsonObject) -> list[tuple[str, str]]:
    found = [one for one in operation.get("parameters", []) if one["in"] == "query" and one["name"] not in PAGING]
    return [_field(one["name"], {**one["schema"], **one}) for one in found]


def _body(operation: JsonObject, schemas: JsonObject) -> list[tuple[str, str]]:
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    for part in schema.get("anyOf", [schema]):  # a body that may be left out
        name = str(part.get("$ref", "")).rpartition("/")[2]
        if name and name not in {"Spec", "Sweep"}:  # of which other pages tell
            return [_field(field, about) for field, about in schemas[name].get("properties", {}).items()]
    return []


def _field(name: str, about: JsonObject) -> tuple[str, str]:
    """Return the name of the field, and its name with its values and meaning."""
    values = about.get("enum") or about.get("items", {}).get("enum") or []
    found = ", ".join(f"`{value}`" for value in values if value)
    words = "; ".join(filter(None, [found, about.get("description")]))
    return name, f"`{name}` ({words})" if words else f"`{name}`"


if __name__ == "__main__":
    print("\n".join(map(documented, sys.argv[1:] or PAGES)), end="")
