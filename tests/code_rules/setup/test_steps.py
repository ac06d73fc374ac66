import sys

import pytest

from dashboard.setup import steps


def test_a_program_that_fails_carries_the_sentence_and_its_output() -> None:
    with pytest.raises(steps.SetupError) as caught:
        steps.run([sys.executable, "-c", "import sys; print('because'); sys.exit(3)"], "It failed.")
    assert caught.value.sentence == "It failed."
    assert "because" in caught.value.output


def test_a_program_that_is_not_there_carries_the_sentence() -> None:
    with pytest.raises(steps.SetupError, match="Install it"):
        steps.run(["/nowhere/program"], "Install it.")


def test_a_step_says_its_name_its_notes_and_its_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    with steps.step("Weaving") as notes:
        notes.append("by hand")
    assert capsys.readouterr().out.split() == ["Weaving", "(by", "hand)", "0.0", "s"]


def test_only_the_last_lines_are_shown() -> None:
    text = "\n".join(f"line {number}" for number in range(100))
    assert steps.last_lines(text, 2) == "    line 98\n    line 99"
