"""Videos in the SDK: files go as they are, frames become a GIF of the same pixels, and what is none is refused."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

import trainyard
from tests.media import CLIP
from tests.trainyard.media_records import logged, media

WEBM = b"\x1a\x45\xdf\xa3" + bytes(60)
FRAMES = np.stack([np.full((4, 6, 3), value, np.uint8) for value in (0, 120, 255)])  # T x H x W x C


def gif() -> bytes:
    buffer = io.BytesIO()
    Pillow.new("L", (6, 4)).save(buffer, "GIF")
    return buffer.getvalue()


@pytest.mark.parametrize("is_path", [False, True])
@pytest.mark.parametrize(("data", "form"), [(CLIP, "mp4"), (WEBM, "webm")], ids=["mp4", "webm"])
def test_a_file_goes_as_it_is(spool: Path, tmp_path: Path, data: bytes, form: str, is_path: bool) -> None:
    (tmp_path / "clip").write_bytes(data)
    found = logged(spool, trainyard.Video(tmp_path / "clip" if is_path else data, caption="a walk"))
    assert (found["kind"], found["data"]) == ("video", data)
    assert found["meta"] == {"caption": "a walk", "format": form}


def test_a_gif_is_a_picture_that_moves(spool: Path) -> None:
    found = logged(spool, trainyard.Video(gif()))
    assert (found["kind"], found["data"]) == ("image", gif())
    assert found["meta"] == {"caption": "", "width": 6, "height": 4, "format": "gif"}


@pytest.mark.parametrize(
    ("given", "channels_first"),
    [
        (FRAMES, None),
        (FRAMES / 255, None),
        (torch.from_numpy(FRAMES).permute(0, 3, 1, 2), None),
        (FRAMES.transpose(0, 3, 1, 2), True),
        (FRAMES[..., :1], False),
    ],
)
def test_frames_become_a_gif_of_the_same_pixels(spool: Path, given: Any, channels_first: bool | None) -> None:
    found = logged(spool, trainyard.Video(given, fps=10, channels_first=channels_first))
    assert found["kind"] == "image" and found["meta"] == {"caption": "", "width": 6, "height": 4, "format": "gif"}
    with Pillow.open(io.BytesIO(found["data"])) as picture:
        shown = []
        for frame in range(picture.n_frames):  # type: ignore[attr-defined]
            picture.seek(frame)
            shown.append((np.asarray(picture.convert("L"))[2, 3], picture.info["duration"]))
    assert shown == [(0, 100), (120, 100), (255, 100)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((b"RIFF an AVI",), "no MP4, WebM or GIF"),
        (("nowhere.mp4",), "nowhere.mp4"),
        ((bytes(1_200_000),), "no MP4, WebM or GIF"),
        ((np.zeros((4, 6, 3)),), "T x H x W x C"),
        ((np.zeros((0, 4, 6, 3)),), "T x H x W x C"),
        ((np.zeros((2, 7, 6, 5)),), "7 x 6 x 5 is no picture"),
        ((FRAMES, 0), "fps is 0"),
        ((CLIP + bytes(1_100_000),), "cut it, or scale it down"),
    ],
    ids=lambda value: value if isinstance(value, str) else "given",
)
def test_what_is_no_video_is_refused_with_the_reason_and_training_goes_on(
    given: Any, words: str, spool: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = trainyard.init()
    run.log({"clip": trainyard.Video(*given), "train/loss": 0.5}, step=1)
    run.finish()
    assert media(spool) == [] and run.num_bad_values == 1
    assert words in caplog.text
