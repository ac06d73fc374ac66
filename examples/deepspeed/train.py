"""A transformer learns to sort digits under DeepSpeed, in the ZeRO stage of the JSON file that is named.

    torchrun --nproc-per-node 2 train.py --deepspeed_config zero2.json

Nothing in here knows of Trainyard. Run again, it goes on from the newest checkpoint in the first folder of ``--save``.
"""

import argparse

import deepspeed
import torch
import torch.distributed as dist
from net import Sorter, rows
from torch import nn


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=-1, help="given by DeepSpeed's launcher")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--save", nargs="+", default=["checkpoints"], help="folders for checkpoints")
    parser.add_argument("--save-every", type=int, default=50, help="steps")
    deepspeed.add_config_arguments(parser)
    arguments = parser.parse_args()

    deepspeed.init_distributed()
    torch.manual_seed(0)
    model = Sorter()
    engine, *_ = deepspeed.initialize(args=arguments, model=model, model_parameters=model.parameters())
    engine.load_checkpoint(arguments.save[0])
    rank, world_size, first = dist.get_rank(), dist.get_world_size(), engine.global_steps + 1
    if rank == 0:
        print(f"{world_size} processes, ZeRO stage {engine.zero_optimization_stage()}, from step {first}", flush=True)

    for step in range(first, arguments.steps + 1):
        digits, wanted = rows(step, rank, world_size, engine.train_micro_batch_size_per_gpu())
        loss = nn.functional.cross_entropy(engine(digits.to(engine.device)), wanted.to(engine.device))
        engine.backward(loss)
        engine.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {step}/{arguments.steps}  loss {mean.item() / world_size:.6f}", flush=True)
        if step % arguments.save_every == 0 or step == arguments.steps:
            for folder in arguments.save:
                engine.save_checkpoint(folder, tag=f"step{step}")
            if rank == 0:
                print(f"kept step {step}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
