"""WAV files: what the head of one says, and one made of samples. Nothing here decodes a sound. The server asks the same
of what it is sent."""

import io
import struct
import wave
from typing import NamedTuple

WAV = "wav"  # the only format
PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
SAMPLES = {PCM: (8, 16, 24, 32), FLOAT: (32, 64)}  # bits of a sample that browsers play
RATES = range(3_000, 384_001)  # samples a second that browsers play
MAX_CHANNELS = 8
MAX_CHUNKS = 100  # before the samples; a recorder writes a few


class SoundHeader(NamedTuple):
    sample_rate: int
    channels: int
    duration_s: float


def head_of(data: bytes) -> SoundHeader:
    """Return what the file says of itself. Raises ValueError where no browser would play it."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise ValueError("these bytes are no WAV")
    shape = None
    at = 12
    for _ in range(MAX_CHUNKS):
        if at + 8 > len(data):
            break
        name, size = struct.unpack_from("<4sI", data, at)
        at += 8
        if name == b"fmt ":
            shape = _shape(data[at : at + size])
        elif name == b"data" and shape is not None:
            rate, channels, frame_bytes = shape
            frames = min(size, len(data) - at) // frame_bytes  # a stream's writer did not know the size
            if not frames:
                raise ValueError("this WAV has no samples")
            return SoundHeader(rate, channels, frames / rate)
        at += size + size % 2
    raise ValueError("this WAV ends before its samples")


def _shape(chunk: bytes) -> tuple[int, int, int]:
    """Return samples a second, channels, and the bytes of one sample of all channels."""
    if len(chunk) < 16:
        raise ValueError("this WAV ends in its head")
    form, channels, rate, _, frame_bytes, bits = struct.unpack_from("<HHIIHH", chunk)
    if form == EXTENSIBLE and len(chunk) >= 26:
        (form,) = struct.unpack_from("<H", chunk, 24)
    if bits not in SAMPLES.get(form, ()) or frame_bytes != channels * bits // 8:
        raise ValueError(f"a WAV is PCM or float, and this one is of format {form} with {bits} bits")
    if rate not in RATES or not 0 < channels <= MAX_CHANNELS:
        found = f"{rate:,} samples a second on {channels} channels"
        raise ValueError(f"{found} are not played: {RATES[0]:,} to {RATES[-1]:,} on 1 to {MAX_CHANNELS} are")
    return rate, channels, frame_bytes


def wav(samples: bytes, sample_rate: int, channels: int) -> bytes:
    """Return a WAV of ``samples``: 16 bits each, little-endian, those of all channels together."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setparams((channels, 2, sample_rate, 0, "NONE", ""))
        file.writeframes(samples)
    return buffer.getvalue()
