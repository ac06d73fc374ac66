"""The states of every generator that a rank may draw from, as JSON."""

import base64
import random
from typing import Any, NotRequired, TypedDict

import numpy as np
import torch


class RandomState(TypedDict):
    """``numpy`` is [keys, position, has_gauss, cached_gaussian], ``python`` is [version, words, next_gaussian]."""

    torch: str
    numpy: list[Any]
    python: list[Any]
    cuda: NotRequired[str]


def random_state(device: torch.device) -> RandomState:
    """Return the states of torch (CPU, and the rank's GPU), numpy and Python; keys in base64."""
    version, words, gauss = random.getstate()
    _, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    state: RandomState = {
        "torch": _text(torch.get_rng_state().numpy().tobytes()),
        "numpy": [_text(np.asarray(keys).astype("<u4").tobytes()), int(position), int(has_gauss), float(cached)],
        "python": [version, _text(np.array(words, "<u4").tobytes()), gauss],
    }
    if device.type == "cuda":
        state["cuda"] = _text(torch.cuda.get_rng_state(device).numpy().tobytes())
    return state


def load_random_state(state: RandomState, device: torch.device) -> None:
    """Take back what ``random_state`` gave. A state without a GPU's leaves that of the GPU alone."""
    torch.set_rng_state(_bytes_tensor(state["torch"]))
    keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state(("MT19937", _words(keys), position, has_gauss, cached))
    version, words, gauss = state["python"]
    random.setstate((version, tuple(_words(words).tolist()), gauss))
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(_bytes_tensor(state["cuda"]), device)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _words(text: str) -> np.ndarray[Any, np.dtype[np.uint32]]:
    return np.frombuffer(base64.b64decode(text), "<u4").astype(np.uint32)


def _bytes_tensor(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
