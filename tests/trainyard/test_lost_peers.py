from __future__ import annotations

import pytest

from trainyard.lost_peers import is_of_lost_peer, lost_peer_sentence

CLOSED = (
    "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
    "[127.0.0.1]:42665. This is typically caused by a remote worker crashing. Check the logs of the remote worker "
    "before reporting an error. GLHF! \N{BEACH WITH UMBRELLA}\N{VARIATION SELECTOR-16}"
)
RESET = (
    "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:9639: Connection "
    "reset by peer. This is typically caused by a remote worker hanging or bugs in the application. Check the logs of "
    "the remote worker before reporting an error. GLHF! \N{BEACH WITH UMBRELLA}\N{VARIATION SELECTOR-16}"
)


@pytest.mark.parametrize(
    ("message", "what"),
    [
        (CLOSED, "Connection closed by peer [127.0.0.1]:42665"),
        (RESET, "Read error [127.0.0.1]:9639: Connection reset by peer"),
    ],
)
def test_what_gloo_says_of_a_lost_peer_is_said_without_its_advice(message: str, what: str) -> None:
    error = {"type": "RuntimeError", "message": message}
    assert is_of_lost_peer(error)
    assert lost_peer_sentence("Rank 0 on a", error) == f"Rank 0 on a lost its connection to another rank ({what})."


def test_a_store_that_went_away_is_a_lost_peer_whatever_it_says() -> None:
    error = {"type": "DistNetworkError", "message": ""}
    assert is_of_lost_peer(error)
    assert lost_peer_sentence("Rank 1", error) == "Rank 1 lost its connection to another rank (DistNetworkError)."


@pytest.mark.parametrize(
    "error",
    [None, {"type": "ValueError", "message": "no data"}, {"type": "ConnectionResetError", "message": "reset by peer"}],
)
def test_other_errors_are_causes(error: dict[str, str] | None) -> None:
    assert not is_of_lost_peer(error)
