"""What one writes for `torchrun --max-restarts`: a GPT of hello-gpt's sizes under DDP that saves its state every so
many steps and goes on from the newest when it is started again. It imports torch alone, so that a restart is short.

`torchrun_gpt.py FOLDER STEPS_BETWEEN_CHECKPOINTS`; rank 0 appends `restarts step Unix-seconds` to FOLDER/steps.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY = 4, 128, 4, 128, 256
BATCH = 16  # of each of two ranks


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.projection, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.projection(self.first(x)).chunk(3, dim=-1)
        )
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        mixed_in: torch.Tensor = x + self.mlp(self.second(x))
        return mixed_in


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.blocks(self.tokens(tokens) + self.places.weight))
        return scores


def main(folder: Path, every: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    step = 0
    path = folder / "newest.pt"
    if path.exists():
        state = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    restarts = os.environ["TORCHELASTIC_RESTART_COUNT"]
    replica = DistributedDataParallel(model, gradient_as_bucket_view=True)
    with (folder / "steps").open("a", buffering=1) as steps:
        while True:
            step += 1
            torch.manual_seed(step * dist.get_world_size() + rank)
            batch = torch.randint(VOCABULARY, (BATCH, CONTEXT + 1))
            optimizer.zero_grad()
            scores = replica(batch[:, :-1])
            nn.functional.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten()).backward()  # type: ignore[no-untyped-call]  # torch's own
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if rank == 0:
                steps.write(f"{restarts} {step} {time.time()}\n")
                if step % every == 0:
                    temporary = path.with_suffix(".new")
                    torch.save(
                        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, temporary
                    )
                    os.replace(temporary, path)  # noqa: PTH105  # atomic, as one writes it


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
