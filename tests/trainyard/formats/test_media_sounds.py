"""Sounds in the SDK: what was logged is a WAV of the same samples, and what is none is refused with the reason."""

from __future__ import annotations

import io
import struct
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import trainyard
from tests.media import BEEP
from tests.trainyard.media_records import logged, media
from trainyard.formats.sounds import head_of


def samples(data: bytes) -> NDArray[np.int16]:
    """The samples of a WAV of 16 bits, as samples x channels, by the standard library's reader."""
    with wave.open(io.BytesIO(data)) as file:
        assert file.getsampwidth() == 2
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, file.getnchannels())


def test_floats_are_from_minus_one_to_one_and_the_rest_is_clipped(spool: Path) -> None:
    found = logged(spool, trainyard.Audio(np.array([0.0, 0.5, -1.0, 7.0, np.nan, -np.inf]), 8_000, caption="a beep"))
    assert samples(found["data"])[:, 0].tolist() == [0, 16_384, -32_767, 32_767, 0, -32_767]
    duration_s = 6 / 8_000
    said = {"caption": "a beep", "sample_rate": 8_000, "channels": 1, "duration_s": duration_s, "format": "wav"}
    assert found["meta"] == said


STEREO = np.arange(-10, 10, dtype=np.int16).reshape(10, 2)


@pytest.mark.parametrize(
    "given", [STEREO, STEREO.T, torch.from_numpy(STEREO.T.copy())], ids=["L x C", "C x L", "a tensor"]
)
def test_the_shorter_side_are_the_channels(given: Any, spool: Path) -> None:
    assert (samples(logged(spool, trainyard.Audio(given, 44_100))["data"]) == STEREO).all()


def test_a_wav_is_kept_to_the_byte(spool: Path, tmp_path: Path) -> None:
    (tmp_path / "beep.wav").write_bytes(BEEP)
    assert logged(spool, trainyard.Audio(tmp_path / "beep.wav"))["data"] == BEEP


def test_the_script_may_change_its_samples_at_once(spool: Path) -> None:
    given = np.zeros(100)
    sound = trainyard.Audio(given, 8_000)
    given[:] = 1
    assert not samples(logged(spool, sound)["data"]).any()


def wav_of(form: int, bits: int, *, extra: bytes = b"", claims: int | None = None) -> bytes:
    data = bytes(bits // 8 * 10)
    head = struct.pack("<HHIIHH", form, 1, 8_000, 8_000 * bits // 8, bits // 8, bits) + extra
    odd = b"LIST" + struct.pack("<I", 3) + b"abc\0"  # a chunk of an odd size is padded
    body = b"WAVEfmt " + struct.pack("<I", len(head)) + head + odd
    body += b"data" + struct.pack("<I", len(data) if claims is None else claims) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize(
    "data",
    [
        wav_of(1, 8),
        wav_of(1, 24),
        wav_of(3, 32),
        wav_of(0xFFFE, 16, extra=struct.pack("<HHIH14x", 22, 16, 0, 1)),
        wav_of(1, 16, claims=0xFFFFFFFF),
    ],
    ids=["8 bits", "24 bits", "floats", "extensible", "a stream"],
)
def test_the_head_of_a_wav_of_any_recorder_is_read(data: bytes) -> None:
    assert head_of(data) == (8_000, 1, 10 / 8_000)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((np.zeros(10),), "sample_rate is None"),
        ((np.zeros(10), 44_100.0), "sample_rate is 44100.0"),
        ((np.zeros(10), 100), "3,000 to 384,000"),
        ((np.zeros((20, 30)), 8_000), "20 x 30 is no sound"),
        ((np.zeros(0), 8_000), "0 x 1 is no sound"),
        ((np.zeros(10, np.int32), 8_000), "not int32"),
        ((b"ID3 an MP3",), "no WAV"),
        (("nowhere.wav",), "nowhere.wav"),
        ((np.zeros(700_000), 8_000), "cut it, or lower its sample rate"),
    ],
    ids=str,
)
def test_what_is_no_sound_is_refused_with_the_reason_and_training_goes_on(
    given: Any, words: str, spool: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = trainyard.init()
    run.log({"speech": trainyard.Audio(*given), "train/loss": 0.5}, step=1)
    run.finish()
    assert media(spool) == [] and run.num_bad_values == 1
    assert words in caplog.text
