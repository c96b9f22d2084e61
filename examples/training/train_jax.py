"""Train a small network on data that the script makes itself, by any number of JAX processes.

Alone it is one process. As a job of Peloton it is one process of a gang:

    peloton run --framework jax -n 4 -- python train_jax.py --steps 200

Each process has its part of the data, and collectives of Gloo sum the gradients over all of them: the loss is
that of one process, whatever their number. With `--checkpoint FILE`, which all processes can read, the first
one saves the weights, and a job that runs again continues there:

    peloton run --framework jax -n 4 --maxFailures 10 -- python train_jax.py --checkpoint weights.npz
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

ROWS, INPUTS, HIDDEN, RATE = 960, 8, 16, 0.05


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


def save(file: Path, number: int, weights: dict[str, jax.Array]) -> None:
    """Write the weights after a step: a file is there as a whole, or as it was before."""
    partly = file.with_name(f".{file.name}")
    with partly.open("wb") as opened:
        np.savez(opened, step=number, **{name: np.asarray(each) for name, each in weights.items()})
    partly.replace(file)


def saved(file: Path | None) -> tuple[int, dict[str, jax.Array]]:
    """Return the last step that was saved with its weights; 0 with those to begin with where none was."""
    if file is None or not file.exists():
        return 0, network()
    with np.load(file) as found:
        weights = {name: jnp.asarray(found[name]) for name in found.files if name != "step"}
        return int(found["step"]), weights


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
    parser.add_argument("--checkpoint", type=Path, help="file of the weights, for all processes")
    parser.add_argument("--every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between steps, to watch it")
    options = parser.parse_args()
    steps: int = options.steps
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
    begin, first = saved(options.checkpoint)
    print(f"process {rank} of {processes}" + (f" continues after step {begin}" if begin else ""), flush=True)
    if ROWS % processes:
        raise SystemExit(
            f"{ROWS} rows cannot be divided equally among {processes} processes, as JAX has them"
        )
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    rows = NamedSharding(mesh, PartitionSpec("rows"))
    part = slice(rank * ROWS // processes, (rank + 1) * ROWS // processes)
    inputs, wanted = (jax.make_array_from_process_local_data(rows, each[part]) for each in data())
    weights = jax.device_put(first, NamedSharding(mesh, PartitionSpec()))
    loss = None
    for number in range(begin + 1, steps + 1):
        weights, loss = step(weights, inputs, wanted)
        if rank == 0 and number % 50 == 0:
            print(f"step {number} loss {float(loss):.12f}", flush=True)
        if rank == 0 and options.checkpoint is not None and number % options.every == 0 and number < steps:
            save(options.checkpoint, number, weights)
        time.sleep(options.pause)
    if rank == 0 and loss is not None:
        print(f"final loss {float(loss):.12f}", flush=True)
    if processes > 1:
        jax.distributed.shutdown()


if __name__ == "__main__":
    main()
