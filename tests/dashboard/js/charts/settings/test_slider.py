"""The slider of smoothing."""

from __future__ import annotations

from tests.dashboard.js.conftest import Ask


def test_every_position_is_an_amount_and_back(ask: Ask) -> None:
    found = ask(
        "charts/settings/slider.js",
        "({shares}) => Array.from({length: shares.last + 1}, (_, at) => shares.amountOf(at))"
        ".map((amount) => [amount, shares.positionOf(amount)])",
    )
    assert [place for _, place in found] == list(range(109))
    amounts = [amount for amount, _ in found]
    assert amounts == sorted(set(amounts))
    assert (amounts[0], amounts[60], amounts[99], amounts[100], amounts[108]) == (0, 0.6, 0.99, 0.991, 0.999)
