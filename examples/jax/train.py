"""A line is fitted by JAX in several processes, which average their gradients.

Alone: python train.py. Several get JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID from their launcher.
"""

import argparse
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()

    if "JAX_COORDINATOR_ADDRESS" in os.environ:  # which initialize reads by itself; the two numbers it is given
        jax.distributed.initialize(
            num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
        )
    generator = np.random.default_rng(jax.process_index())  # each process draws points of its own
    gradient = jax.jit(jax.value_and_grad(loss))
    line = jnp.zeros(2)
    for step in range(1, arguments.steps + 1):
        x = generator.standard_normal(32).astype(np.float32)
        value, change = gradient(line, x, 3 * x - 1)
        value, change = (multihost_utils.process_allgather(one).reshape(-1, *one.shape) for one in (value, change))
        line = line - 0.1 * jnp.asarray(change.mean(axis=0))
        if jax.process_index() == 0 and step % 25 == 0:
            print(f"step {step} of {arguments.steps}: loss {value.mean():.6f}", flush=True)
    if jax.process_index() == 0:
        print(f"{jax.process_count()} processes found y = {line[0]:.3f} x + {line[1]:.3f}", flush=True)


def loss(line: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.mean((line[0] * x + line[1] - y) ** 2)


if __name__ == "__main__":
    main()
