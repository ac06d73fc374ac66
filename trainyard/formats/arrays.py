"""Arrays as scripts have them (NumPy, PyTorch, whatever NumPy can read), copied, and as pixels or samples.

NumPy is imported here when the first one comes, and PyTorch never.
"""

from __future__ import annotations

from typing import Any

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
