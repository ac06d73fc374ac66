from __future__ import annotations

import pytest
import torch
from torch import nn

from workers.training.strategies.synchronization.protocol import Flat


def test_tensors_go_into_one_buffer_and_come_back() -> None:
    tensors = [torch.arange(6.0).view(2, 3), torch.tensor(7.0), torch.ones(4)]
    flat = Flat(tensors, num_extra=2)
    flat.take(tensors)
    assert flat.buffer.tolist() == [0, 1, 2, 3, 4, 5, 7, 1, 1, 1, 1, 0, 0]
    flat.buffer.mul_(2)
    flat.extra.fill_(9)
    others = [nn.Parameter(torch.zeros_like(tensor)) for tensor in tensors]
    flat.give(others)
    assert [other.tolist() for other in others] == [(2 * tensor).tolist() for tensor in tensors]
    assert flat.buffer.tolist()[-2:] == [9, 9]


def test_what_is_not_float32_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"parameters must be float32, got \['torch.bfloat16', 'torch.float32'\]"):
        Flat([torch.zeros(2), torch.zeros(2, dtype=torch.bfloat16)])
