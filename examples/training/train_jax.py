"""Train a small network on data that the script makes itself, by any number of JAX processes.

Alone it is one process. As a job of Peloton it is one process of a gang:

    peloton run --framework jax -n 4 -- python train_jax.py --steps 200

Each process has its part of the data, and collectives of Gloo sum the gradients over all of them: the loss is
that of one process, whatever their number.
"""

from __future__ import annotations

import argparse
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

ROWS, INPUTS, HIDDEN, RATE = 1024, 8, 16, 0.05


def data() -> tuple[np.ndarray, np.ndarray]:
    """Make the rows of a function to learn, the same in every process."""
    chance = np.random.default_rng(7)
    inputs = chance.normal(size=(ROWS, INPUTS))
    return inputs, np.sin(inputs.sum(axis=1, keepdims=True)) + 0.5 * inputs[:, :1]


def network() -> dict[str, jax.Array]:
    """Make the weights to begin with."""
    chance = np.random.default_rng(1)
    return {
        "hidden": jnp.asarray(chance.normal(size=(INPUTS, HIDDEN)) / INPUTS**0.5),
        "output": jnp.asarray(chance.normal(size=(HIDDEN, 1)) / HIDDEN**0.5),
    }


def loss_of(weights: dict[str, jax.Array], inputs: jax.Array, wanted: jax.Array) -> jax.Array:
    """Return the mean squared error."""
    return jnp.mean((jnp.tanh(inputs @ weights["hidden"]) @ weights["output"] - wanted) ** 2)


@jax.jit
def step(
    weights: dict[str, jax.Array], inputs: jax.Array, wanted: jax.Array
) -> tuple[dict[str, jax.Array], jax.Array]:
    """Return the next weights, and the loss of these. The mean over all rows is a collective."""
    loss, gradients = jax.value_and_grad(loss_of)(weights, inputs, wanted)
    return jax.tree.map(lambda weight, slope: weight - RATE * slope, weights, gradients), loss


def main() -> None:
    """Train, and let the first process tell the loss."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    if int(os.environ.get("JAX_NUM_PROCESSES", "1")) > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            os.environ["JAX_COORDINATOR_ADDRESS"],
            int(os.environ["JAX_NUM_PROCESSES"]),
            int(os.environ["JAX_PROCESS_ID"]),
        )
    rank, processes = jax.process_index(), jax.process_count()
    print(f"process {rank} of {processes}", flush=True)
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    rows = NamedSharding(mesh, PartitionSpec("rows"))
    part = slice(rank * ROWS // processes, (rank + 1) * ROWS // processes)
    inputs, wanted = (jax.make_array_from_process_local_data(rows, each[part]) for each in data())
    weights = jax.device_put(network(), NamedSharding(mesh, PartitionSpec()))
    for number in range(steps):
        weights, loss = step(weights, inputs, wanted)
        if rank == 0 and (number + 1) % 50 == 0:
            print(f"step {number + 1} loss {float(loss):.12f}", flush=True)
    if rank == 0:
        print(f"final loss {float(loss):.12f}", flush=True)
    if processes > 1:
        jax.distributed.shutdown()


if __name__ == "__main__":
    main()
