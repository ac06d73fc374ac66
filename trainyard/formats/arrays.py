"""Arrays as scripts have them (NumPy, PyTorch, whatever NumPy can read), copied, and as pixels, samples or counts of
bins.

NumPy is imported here when the first one comes, and PyTorch never.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from trainyard.contract.records import MAX_BIN_COUNT

CHANNELS = (1, 3, 4)  # grey, RGB, RGBA


def numpy_or_none() -> Any:
    """Return NumPy, or None where there is none."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def copied(value: Any) -> Any:
    """Return a copy of ``value`` as an array of NumPy's; what lies on a GPU is waited for.

    Raises ValueError where there is no NumPy, and what the conversion raises.
    """
    numpy = numpy_or_none()
    if numpy is None:
        raise ValueError("arrays need NumPy, which is not installed here")
    if callable(getattr(value, "detach", None)):
        value = value.detach().cpu()
        try:
            value = value.numpy()
        except TypeError:  # a kind of float that NumPy does not have, such as bfloat16
            value = value.float().numpy()
    return numpy.array(value)


def is_tensor(value: Any) -> bool:
    return callable(getattr(value, "detach", None))


def pixels_first(array: Any, *, is_tensor: bool) -> Any:
    """Return ``array`` as H x W x C. It is H x W, H x W x C or C x H x W with C of CHANNELS; where both can be meant, a
    tensor has its channels first. Raises ValueError for any other shape."""
    if array.ndim == 2:
        array = array[:, :, None]
    elif array.ndim != 3:
        raise ValueError(_wrong_shape(array))
    else:
        could_be_last, could_be_first = array.shape[2] in CHANNELS, array.shape[0] in CHANNELS
        if could_be_first and (is_tensor or not could_be_last):
            array = array.transpose(1, 2, 0)
        elif not could_be_last:
            raise ValueError(_wrong_shape(array))
    if not array.size:
        raise ValueError(_wrong_shape(array))
    return array


def as_bytes(array: Any) -> bytes:
    """Return the pixels of an array, 0 to 255: floats are 0 to 1, bool black and white, integers as they are; what is
    beyond is clipped, and NaN is black. Raises ValueError for other kinds."""
    numpy = numpy_or_none()
    if array.dtype == numpy.uint8:
        return bytes(array.tobytes())
    if array.dtype.kind == "b":
        array = array * numpy.uint8(255)
    elif array.dtype.kind in "iu":
        array = array.clip(0, 255)
    elif array.dtype.kind == "f":
        array = numpy.nan_to_num(array, nan=0.0).clip(0, 1) * 255 + 0.5
    else:
        raise ValueError(f"pixels are numbers, not {array.dtype}")
    return bytes(array.astype(numpy.uint8).tobytes())


def samples_first(array: Any, max_channels: int) -> Any:
    """Return ``array`` as samples x channels; it has one channel, or its shorter side are the channels. Raises
    ValueError for any other shape or kind."""
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or not array.size or min(array.shape) > max_channels:
        shape = " x ".join(map(str, array.shape)) or "nothing"
        raise ValueError(f"an array of {shape} is no sound: L, L x C or C x L with C of 1 to {max_channels} is")
    if array.dtype.kind != "f" and array.dtype.name != "int16":
        raise ValueError(f"samples are floats from -1 to 1, or int16, not {array.dtype}")
    return array.T if array.shape[0] < array.shape[1] else array


def as_samples(array: Any) -> bytes:
    """Return the samples of an array as 16 bits each, little-endian."""
    numpy = numpy_or_none()
    if array.dtype.kind == "f":
        array = (numpy.nan_to_num(array, nan=0.0).clip(-1, 1) * 32_767).round()
    return bytes(array.astype("<i2").tobytes())


def _wrong_shape(array: Any) -> str:
    shape = " x ".join(map(str, array.shape)) or "nothing"
    return f"an array of {shape} is no picture: H x W, H x W x C or C x H x W with C of 1, 3 or 4 is"


# Values as the counts of equal bins: by NumPy where there is one, else in plain Python.

LARGEST = 1e299  # values beyond are counted with infinity: the difference of two edges must be a number
SMALLEST = 1e-290
AT_ONCE = 1 << 20  # so many values are turned into float64 at a time


class Binned(NamedTuple):
    edges: array[float]  # n + 1, growing
    counts: array[float]  # n
    num_not_finite: int


def binned(values: Any, bins: int) -> Binned:
    """Return ``values`` (an array of NumPy's, or numbers) in ``bins`` equal bins from the least to the greatest.

    Raises TypeError or ValueError for what are no numbers.
    """
    numpy = numpy_or_none()
    if numpy is not None:
        return _by_numpy(numpy, numpy.asarray(values).reshape(-1), bins)
    return _plainly([float(value) for value in values], bins)


def given(edges: Iterable[Any], counts: Iterable[Any]) -> Binned:
    """Return a histogram that somebody else made. Raises ValueError, and what is raised by what are no numbers."""
    found = Binned(array("d", map(float, edges)), array("d", map(float, counts)), 0)
    if not found.counts or len(found.edges) != len(found.counts) + 1:
        raise ValueError(f"{len(found.counts)} counts have {len(found.counts) + 1} edges, not {len(found.edges)}")
    pairs = zip(found.edges, found.edges[1:], strict=False)
    if not all(abs(edge) <= LARGEST for edge in found.edges) or not all(low < high for low, high in pairs):
        raise ValueError("edges are finite numbers that grow")
    if not all(0 <= count <= MAX_BIN_COUNT for count in found.counts):
        raise ValueError(f"counts are numbers from 0 to {MAX_BIN_COUNT:,}")
    return found


def span(low: float, high: float, bins: int) -> tuple[float, float]:
    """Return the range that the bins divide: wider than from ``low`` to ``high`` where these are too close for it."""
    size = max(abs(low), abs(high))
    if size > SMALLEST and high - low > bins * 1e-14 * size:
        return low, high
    half = size / 2 if size > SMALLEST else 0.5
    return low - half, high + half


def _by_numpy(numpy: Any, flat: Any, bins: int) -> Binned:
    if flat.dtype.kind == "c":
        raise TypeError("complex numbers have no order")
    if flat.dtype.kind not in "biuf":
        flat = flat.astype(numpy.float64)
    if not flat.size:
        return _of_nothing(bins, 0)
    parts = [(float(part.min()), float(part.max())) for part in _finite(numpy, flat) if part.size]
    if not parts:
        return _of_nothing(bins, int(flat.size))
    low, high = span(min(low for low, _ in parts), max(high for _, high in parts), bins)
    counts = numpy.zeros(bins)
    for part in _finite(numpy, flat):
        counts += numpy.histogram(part, bins=bins, range=(low, high))[0]
    edges = numpy.linspace(low, high, bins + 1)
    return Binned(array("d", edges.tobytes()), array("d", counts.tobytes()), int(flat.size - counts.sum()))


def _finite(numpy: Any, flat: Any) -> Iterator[Any]:
    for start in range(0, flat.size, AT_ONCE):
        part = flat[start : start + AT_ONCE].astype(numpy.float64)
        yield part[numpy.abs(part) <= LARGEST]


def _plainly(values: Sequence[float], bins: int) -> Binned:
    finite = [value for value in values if abs(value) <= LARGEST]
    if not finite:
        return _of_nothing(bins, len(values))
    low, high = span(min(finite), max(finite), bins)
    counts = array("d", bytes(8 * bins))
    for value in finite:
        counts[min(bins - 1, int((value - low) / (high - low) * bins))] += 1
    edges = array("d", (low + (high - low) * edge / bins for edge in range(bins + 1)))
    return Binned(edges, counts, len(values) - len(finite))


def _of_nothing(bins: int, num_not_finite: int) -> Binned:
    """The histogram without a finite value: all counts are 0."""
    return Binned(array("d", (edge / bins for edge in range(bins + 1))), array("d", bytes(8 * bins)), num_not_finite)
