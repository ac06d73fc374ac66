"""The pages about the spec and the command line say what there is, no less and no more."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from tests.printed_pages.spec import SCRIPTS, TITLES, products, tables
from trainyard.cli.parser import build_parser
from trainyard.cli.programs import PROGRAMS
from trainyard.spec import parse_spec
from trainyard.spec.document import load_spec_file, parse_document
from trainyard.spec.form import GROUPS
from trainyard.spec.sections.restarts import DEFAULT_ACTIONS
from trainyard.spec.sweeps import parse_sweep, space_problems

DOCS = Path(__file__).parents[2] / "docs"
SPECS = ("spec*.md", "parallel.md", "hangs.md", "recovery*.md", "watch.md", "log_rules.md", "queue*.md")


def commands(parser: argparse.ArgumentParser, above: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield each command that runs something, with its words."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if above and not groups:
        yield above, parser
    for group in groups:
        for name, below in group.choices.items():
            yield from commands(below, f"{above} {name}".strip())


def sections() -> dict[str, str]:
    """Return the text under each heading ``### `trainyard …` `` of the page, by the command's words."""
    text = "\n".join(page.read_text().partition("\n## ")[2] for page in sorted(DOCS.glob("cli*.md")))
    parts = re.split(r"^### `trainyard ([a-z -]+?)(?: [A-Z\[-].*)?`$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_tables_of_the_spec_are_those_of_the_code() -> None:
    text = "\n".join(page.read_text() for page in DOCS.glob("spec_*.md"))
    assert set(TITLES) - {SCRIPTS} == set(GROUPS)
    for table in re.split(r"\n(?=## )", tables()):
        assert text.count(table) == 1, "put what `python -m tests.printed_pages.spec` prints into docs/spec_*.md"


def test_the_tables_of_what_goes_together_are_those_of_the_code() -> None:
    assert products() in (DOCS / "parallel.md").read_text(), "see tests/printed_pages"


def test_every_spec_on_the_pages_is_a_valid_one() -> None:
    pages = (page for name in SPECS for page in sorted(DOCS.glob(name)))
    text = "\n".join(page.read_text() for page in pages)
    found = re.findall(r"^```yaml\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    assert len(found) > 5
    for one in found:
        parse_spec(parse_document(one, "docs/spec.md"))


def test_every_class_of_failure_is_on_the_page_with_its_default() -> None:
    rows = re.findall(r"^\| (`.*`) \| (restart|exclude-node|stop)\b", (DOCS / "recovery.md").read_text(), re.MULTILINE)
    found = {name: action for names, action in rows for name in re.findall(r"`([a-z-]+)`", names)}
    assert found == {str(cause): action for cause, action in DEFAULT_ACTIONS.items()}


def test_every_command_has_its_section_and_every_section_its_command() -> None:
    assert sections().keys() == {name for name, _ in commands(build_parser())}


def test_every_option_of_a_command_is_in_its_section_and_the_other_way_round() -> None:
    for name, parser in commands(build_parser()):
        options = {option for action in parser._actions for option in action.option_strings if option.startswith("--")}
        if options:  # the programs of the house read their own
            documented = set(re.findall(r"`(--[a-z-]+)", sections()[name]))
            assert documented == options - {"--help"}, name


def test_every_example_is_a_valid_spec_and_each_axis_has_one() -> None:
    examples = [load_spec_file(path) for path in sorted((DOCS.parent / "examples").glob("*.yaml"))]
    for one in [one.pop("sweep") for one in examples if "sweep" in one]:
        sweep = parse_sweep(one)
        assert space_problems(sweep, sweep.base) == []
    examples = [one for one in examples if one]
    parallel = [parse_spec(one).resolved().get("parallel", {}) for one in examples]
    assert all(any(one.get(axis, 1) not in (1, "auto") for one in parallel) for axis in ("shard", "tensor", "context"))
    assert any(one.get("pipeline", {}).get("stages", 1) > 1 for one in parallel)


def test_every_command_says_what_it_does() -> None:
    for name, parser in commands(build_parser()):
        assert parser.description or name in PROGRAMS, name
