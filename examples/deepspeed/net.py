"""A small transformer that sorts digits, and the rows that it learns from."""

import torch
from torch import nn

LENGTH, WIDTH, LAYERS = 12, 64, 2


class Sorter(nn.Module):
    """Says for each place which digit stands there once all are sorted."""

    def __init__(self) -> None:
        super().__init__()
        self.digit = nn.Embedding(10, WIDTH)
        self.place = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.1)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(LAYERS)
        )
        self.score = nn.Linear(WIDTH, 10)

    def forward(self, digits: torch.Tensor) -> torch.Tensor:
        hidden = self.digit(digits) + self.place
        for block in self.blocks:
            hidden = block(hidden)
        return self.score(hidden).flatten(0, 1)


def rows(step: int, rank: int, world_size: int, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what a process sees in a step, whenever it is asked: rows of digits, and the same digits sorted."""
    generator = torch.Generator().manual_seed(step * world_size + rank)
    digits = torch.randint(10, (number, LENGTH), generator=generator)
    return digits, digits.sort(dim=1).values.flatten()
