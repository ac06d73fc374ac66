"""A line is fitted by ranks of MPI, which average their gradients by an all-reduce over COMM_WORLD.

mpiexec -n 2 python train.py
"""

import argparse

import numpy as np
from mpi4py import MPI

WORLD = MPI.COMM_WORLD


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()

    print(f"rank {WORLD.rank} of {WORLD.size}: {MPI.Get_library_version().splitlines()[0].strip()}", flush=True)
    generator = np.random.default_rng(WORLD.rank)  # each rank draws points of its own
    line, gradient = np.zeros(2), np.zeros(2)
    for step in range(1, arguments.steps + 1):
        x = generator.standard_normal(32)
        error = line[0] * x + line[1] - (3 * x - 1)
        WORLD.Allreduce(np.array([2 * (error * x).mean(), 2 * error.mean()]) / WORLD.size, gradient)
        line = line - 0.1 * gradient
        if WORLD.rank == 0 and step % 25 == 0:
            print(f"step {step} of {arguments.steps}: loss {(error**2).mean():.6f}", flush=True)
    lines = WORLD.allgather(tuple(line))
    assert lines == [lines[0]] * WORLD.size
    if WORLD.rank == 0:
        print(f"{WORLD.size} ranks found y = {line[0]:.3f} x + {line[1]:.3f}", flush=True)


if __name__ == "__main__":
    main()
