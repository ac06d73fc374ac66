"""Frames of a session: who can read them, and in which order they count."""

from __future__ import annotations

import pytest

from trainyard.contract.seals import BadSeal, new_key
from trainyard.contract.session_frames import Frame, FrameLock, FrameOrder
from trainyard.contract.sessions import FrameKind

KEY = new_key()
FRAME = Frame(1, 7, FrameKind.INPUT, b"secret\n")


def test_a_frame_opens_for_its_session_and_direction_alone() -> None:
    data = FrameLock(KEY, "one", "down").lock(FRAME)
    assert b"secret" not in data
    assert FrameLock(KEY, "one", "down").unlock(data) == FRAME
    others = (FrameLock(KEY, "one", "up"), FrameLock(KEY, "two", "down"), FrameLock(new_key(), "one", "down"))
    for other in others:
        with pytest.raises(BadSeal):
            other.unlock(data)


@pytest.mark.parametrize("place", [0, 11, 15, 30, -1])
def test_a_frame_that_was_changed_does_not_open(place: int) -> None:
    data = bytearray(FrameLock(KEY, "one", "down").lock(FRAME))
    data[place] ^= 1
    for broken in (bytes(data), bytes(data[:10]), b""):
        with pytest.raises(BadSeal):
            FrameLock(KEY, "one", "down").unlock(broken)


def test_frames_count_once_in_their_order_and_those_of_an_older_connection_never() -> None:
    order = FrameOrder()

    def takes(link: int, number: int) -> bool:
        return order.takes(Frame(link, number, FrameKind.KEEP, b""))

    assert [takes(1, 1), takes(1, 2), takes(1, 2), takes(1, 1)] == [True, True, False, False]
    assert [takes(2, 1), takes(1, 3), takes(2, 2)] == [True, False, True]
    with pytest.raises(BadSeal, match="lost on the way"):
        takes(2, 4)
