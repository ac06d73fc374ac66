"""A table is made by Spark, and two processes of its TorchDistributor learn from it with DistributedDataParallel.

    spark-submit --master "spark://…" train.py

Where the SDK is installed, each process logs its own loss to the run. With --kept, a folder that all workers share, a
training goes on from its last step.
"""

import argparse


def train(rows: list[tuple[float, float]], steps: int, kept: str) -> float:
    """Run in each process. What it needs it imports itself: Spark sends the function alone."""
    import os
    import time
    from pathlib import Path

    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.tensor(rows, dtype=torch.float32).split(1, dim=1)
    state, first = Path(kept) / "state.pt", 1
    if kept and state.exists():
        saved = torch.load(state)
        model.load_state_dict(saved["model"])
        first = saved["step"] + 1
    run = None
    if "TRAINYARD_SPOOL" in os.environ:
        import trainyard

        run = trainyard.init()
    print(f"rank {rank} of {size} begins with step {first}", flush=True)
    for step in range(first, steps + 1):
        own = torch.arange(rank, len(rows), size)
        loss = nn.functional.mse_loss(model(x[own]), y[own])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}/{steps}  loss {loss.item()!r}", flush=True)
        if run is not None:
            run.log({"train/loss": loss.item()}, step=step)
        if kept and rank == 0:
            torch.save({"model": model.state_dict(), "step": step}, state.with_suffix(".new"))
            state.with_suffix(".new").rename(state)
        if kept:
            time.sleep(0.1)
    last = torch.tensor(loss.item())
    dist.all_reduce(last)
    dist.destroy_process_group()
    return last.item() / size


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--kept", default="")
    arguments = parser.parse_args()

    from pyspark.ml.torch.distributor import TorchDistributor
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("a curve").getOrCreate()
    table = spark.range(256).selectExpr("id / 128D - 1 as x").selectExpr("x", "x * x * x - x / 2 as y").orderBy("x")
    rows = [(float(row.x), float(row.y)) for row in table.collect()]
    distributor = TorchDistributor(num_processes=2, local_mode=False, use_gpu=False)
    loss = distributor.run(train, rows, arguments.steps, arguments.kept)
    print(f"2 processes of {spark.sparkContext.master.partition(':')[0]} ended with loss {loss:.6f}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
