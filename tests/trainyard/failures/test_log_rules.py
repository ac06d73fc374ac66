"""Rules about lines: they find what they look for, wherever it stands, and no pattern holds up a log."""

from __future__ import annotations

import time

import pytest

from trainyard.contract.causes import CauseClass
from trainyard.contract.orders import LogRule
from trainyard.failures.log_rules import LABELLED, LineRules, builtin_rules
from trainyard.formats.regular_expressions import by_lines, problem_of


def fits(rules: list[LogRule], text: str) -> list[tuple[str, int]]:
    made = LineRules(rules)
    return [(made.rules[fit.rule].label, fit.line) for fit in made.fits(text.encode())]


def rule(label: str, pattern: str) -> LogRule:
    return LogRule(label, pattern)


def test_each_line_that_fits_is_found_with_its_number() -> None:
    text = "all is well\nnfs: server a not responding\n\nnfs: server b not responding"
    assert fits([rule("slow-disk", "nfs: server .* not responding")], text) == [("slow-disk", 1), ("slow-disk", 3)]


def test_several_rules_may_fit_one_line_and_each_is_held_against_it_alone() -> None:
    rules = [rule("a", "^first"), rule("b", "last$"), rule("c", "(?i)MIDDLE|nothing"), rule("d", "never")]
    assert fits(rules, "x\nfirst middle last\nlast") == [("a", 1), ("b", 1), ("c", 1), ("b", 2)]


def test_begin_and_end_are_those_of_a_line() -> None:
    rules = [rule("whole", r"\Aone\z"), rule("dollar", "^two$")]
    assert fits(rules, "one\nzero one\ntwo\ntwo!") == [("whole", 0), ("dollar", 2)]


def test_no_rule_reaches_from_one_line_into_the_next() -> None:
    assert fits([rule("far", r"a\s+b"), rule("any", "a[^x]*b")], "a\nb") == []


def test_a_quotation_that_nobody_closes_does_not_swallow_the_other_rules() -> None:
    assert fits([rule("quoted", r"\Q(a|"), rule("b", "other")], "x (a| y\nother") == [("quoted", 0), ("b", 1)]
    assert by_lines(r"\Qa\E|b") == r"\Qa\E|b"


def test_a_rule_that_is_closed_is_sought_no_more() -> None:
    made = LineRules([rule("a", "a"), rule("b", "b")])
    made.close(0)
    assert [fit.rule for fit in made.fits(b"a\nb")] == [1]
    made.close(1)
    assert list(made.fits(b"a\nb")) == []


def test_a_pattern_that_is_none_is_left_out() -> None:
    assert [one.label for one in LineRules([rule("bad", "("), rule("good", "x")]).rules] == ["good"]


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", CauseClass.GPU_FAULT),
        ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", CauseClass.GPU_FAULT),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", CauseClass.GPU_OUT_OF_MEMORY),
        ("RuntimeError: DefaultCPUAllocator: can't allocate memory", CauseClass.OUT_OF_MEMORY),
        ("OSError: [Errno 28] No space left on device: '/ckpt/step-5'", CauseClass.DISK_FULL),
        ("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)", CauseClass.COLLECTIVE_TIMEOUT),
        ("OSError: [Errno 5] Input/output error", CauseClass.STORAGE),
    ],
)
def test_the_rules_that_ship_know_the_signs_of_failures(line: str, label: CauseClass) -> None:
    assert str(label) in LineRules(builtin_rules()).labels_of(f"2026-01-01 12:00:00 {line}")


def test_they_leave_plain_lines_alone() -> None:
    made = LineRules(builtin_rules())
    assert [one.label for one in made.rules] == [str(name) for name in LABELLED]
    for line in ("step 10 loss 2.31", "saved checkpoint to /data/step-10", "epoch 3: accuracy 0.91", ""):
        assert made.labels_of(line) == []


EXPLODING = ("(a+)+$", "(a|a)*b", "(a|aa)+$", "(.*)*x", r"(\w+\s?)*z$")


@pytest.mark.parametrize("pattern", EXPLODING)
def test_a_pattern_that_explodes_under_backtracking_does_not(pattern: str) -> None:
    line = "a" * 50_000 + "!"
    began = time.process_time()
    fits([rule("bomb", pattern)], "\n".join([line] * 20))
    assert time.process_time() - began < 5  # a million characters; with backtracking the first 40 take hours


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(abc", "missing ): (abc (at character 1)"),
        ("x[z-a]", "invalid character class range: z-a (at character 3)"),
        ("ab(?=x)", "invalid perl operator: (?= (at character 3)"),
        (r"a\8", r"invalid escape sequence: \8 (at character 2)"),
        ("a{1001}", "invalid repetition size: {1001} (at character 2)"),
        ("((a{100}){100}){10}", "invalid repetition size: {100} (at character 4)"),
        ("fine.*", ""),
    ],
)
def test_what_is_wrong_with_a_pattern_is_said_with_its_place(pattern: str, problem: str) -> None:
    assert problem_of(pattern) == problem
