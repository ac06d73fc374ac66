"""Files of specs as a person may write them, and what stands behind ``--set``: a spec, or one sentence for each
problem. Nothing else is raised, and nothing stands still."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from hypothesis import strategies as st

from tests.fuzzing import fuzz, mutated
from trainyard.spec import SpecError, merge, parse_spec
from trainyard.spec.document import parse_document, parse_value

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = [path.read_bytes() for path in sorted((ROOT / "examples").glob("*.yaml"))]
ANCHORS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 9)
)  # 9 ** 9 texts once something writes it out
NASTY = [ANCHORS.encode(), f"{ANCHORS}name: x\ntags: *a8".encode(), b"a: &a [*a]", b"? [a]\n: b", b"&a {<<: *a}",
         b"!!python/object:os.system {}", b"!!binary 0", b"2001-99-99", b"!!set {a, b}"]  # fmt: skip
PATHS = ["train.steps", "name", "task", "task.data.source", "tags", "resources.nodes", "a.b.c", "", ".", "x" * 500]


def test_no_file_of_a_spec_raises_more_than_spec_error() -> None:
    assert len(EXAMPLES) > 10

    def check(example: tuple[bytes, str]) -> None:
        data, name = example
        with suppress(SpecError):
            json.dumps(parse_spec(parse_document(data, name)).resolved(), allow_nan=False)

    files = mutated(*EXAMPLES, *NASTY) | st.sampled_from(NASTY)
    fuzz(st.tuples(files, st.sampled_from(["run.yaml", "run.yaml", "run.json"])), check, "files of specs")


def test_no_word_behind_set_raises_more_than_spec_error() -> None:
    base = parse_document(EXAMPLES[0], "run.yaml")

    def check(changes: dict[str, str]) -> None:
        with suppress(SpecError):
            parse_spec(merge(base, {path: parse_value(text) for path, text in changes.items()}))

    words = st.text(max_size=40) | mutated(b"[1, 2]", b"{a: 1}", *NASTY).map(lambda one: one.decode("latin1"))
    paths = st.sampled_from(PATHS) | st.text(max_size=12)
    fuzz(st.dictionaries(paths, words, min_size=1, max_size=3), check, "words behind --set")
