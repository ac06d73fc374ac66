"""A transformer learns to sort digits, its weights sharded over all processes (FSDP2), and keeps a checkpoint.

    torchrun --nproc-per-node 2 train.py --steps 150

Run again, it goes on from the checkpoint in ``--output``. Where a run has an output folder (TRAINYARD_OUTPUT), that is
where its files are kept.
"""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

LENGTH, WIDTH, LAYERS = 12, 64, 2
WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)  # gathered on rank 0, and spread from it
SPREAD = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch-size", type=int, default=64, help="of each process")
    parser.add_argument("--output", type=Path, default=Path(os.environ.get("TRAINYARD_OUTPUT", ".")))
    arguments = parser.parse_args()

    kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    mesh = init_device_mesh(kind, (int(os.environ["WORLD_SIZE"]),))  # forms the process group too
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = Sorter().to(kind)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    checkpoint = arguments.output / "checkpoint.pt"
    first = load(checkpoint, model, optimizer, kind) + 1
    if rank == 0:
        own = sum(parameter.to_local().numel() for parameter in model.parameters())
        every = sum(parameter.numel() for parameter in model.parameters())
        print(f"from step {first}: this process holds {own:,} of {every:,} weights", flush=True)

    generator = torch.Generator()
    for step in range(first, arguments.steps + 1):
        generator.manual_seed(step * dist.get_world_size() + rank)
        digits = torch.randint(10, (arguments.batch_size, LENGTH), generator=generator).to(kind)
        wanted = digits.sort(dim=1).values.flatten()
        scores = model(digits)
        loss = nn.functional.cross_entropy(scores, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0 or step == arguments.steps:
            right = (scores.argmax(1) == wanted).float().mean()
            told = torch.stack([loss.detach(), right])
            dist.all_reduce(told, op=dist.ReduceOp.SUM)
            if rank == 0:
                mean_loss, mean_right = (told / dist.get_world_size()).tolist()
                print(f"step {step}/{arguments.steps}  loss {mean_loss:.4f}  sorted {mean_right:.3f}", flush=True)
    save(checkpoint, model, optimizer, arguments.steps)
    dist.destroy_process_group()


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
        return self.score(hidden.flatten(0, 1))


def save(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Gather everything on rank 0, which replaces the file as a whole."""
    state = {"model": get_model_state_dict(model, options=WHOLE)}
    state["optimizer"] = get_optimizer_state_dict(model, optimizer, options=WHOLE)
    if dist.get_rank() == 0:
        torch.save({**state, "step": step}, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)
        print(f"kept step {step} in {path.name}", flush=True)
    dist.barrier()


def load(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, kind: str) -> int:
    """Give every process its part of what rank 0 finds, and return the step; 0 where there is nothing."""
    found = dist.get_rank() == 0 and path.exists()
    state = (
        torch.load(path, map_location="cpu", weights_only=True) if found else {"model": {}, "optimizer": {}, "step": 0}
    )
    step = torch.tensor(state["step"], device=kind)
    dist.broadcast(step, src=0)
    if step.item():
        set_model_state_dict(model, state["model"], options=SPREAD)
        set_optimizer_state_dict(model, optimizer, state["optimizer"], options=SPREAD)
    return int(step.item())


if __name__ == "__main__":
    main()
