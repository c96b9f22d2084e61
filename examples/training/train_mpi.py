"""Train a small network on data that the script makes itself, by any number of MPI processes (mpi4py).

Alone it is one process. As a job of Peloton, `mpi_member.py` starts it by `mpirun` on all members of a gang:

    peloton run --framework mpi -n 4 -- python3 mpi_member.py python3 train_mpi.py --steps 200

Each process has its part of the rows, and an allreduce sums the gradients over all of them: the loss is that
of one process, whatever their number. With `--checkpoint FILE`, which all processes can read, the first one
saves the weights, and a job with `--maxFailures` that runs again continues there.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

ROWS, INPUTS, HIDDEN, RATE = 960, 8, 16, 0.05


def data() -> tuple[np.ndarray, np.ndarray]:
    """Make the rows of a function to learn, the same in every process."""
    chance = np.random.default_rng(7)
    inputs = chance.normal(size=(ROWS, INPUTS))
    return inputs, np.sin(inputs.sum(axis=1, keepdims=True)) + 0.5 * inputs[:, :1]


def save(file: Path, number: int, hidden: np.ndarray, output: np.ndarray) -> None:
    """Write the weights after a step: a file is there as a whole, or as it was before."""
    partly = file.with_name(f".{file.name}")
    with partly.open("wb") as opened:
        np.savez(opened, step=number, hidden=hidden, output=output)
    partly.replace(file)


def saved(file: Path | None) -> tuple[int, np.ndarray, np.ndarray]:
    """Return the last step that was saved with its weights; 0 with those to begin with where none was."""
    if file is not None and file.exists():
        with np.load(file) as found:
            return int(found["step"]), found["hidden"], found["output"]
    chance = np.random.default_rng(1)
    hidden = chance.normal(size=(INPUTS, HIDDEN)) / INPUTS**0.5
    return 0, hidden, chance.normal(size=(HIDDEN, 1)) / HIDDEN**0.5


def main() -> None:
    """Train, and let the first process tell the loss."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--checkpoint", type=Path, help="file of the weights, for all processes")
    parser.add_argument("--every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between steps, to watch it")
    options = parser.parse_args()
    steps: int = options.steps
    world = MPI.COMM_WORLD
    rank, processes = world.Get_rank(), world.Get_size()
    first, hidden, output = world.bcast(saved(options.checkpoint) if rank == 0 else None)
    task = f"in task {os.environ.get('PELOTON_RANK', '-')}"
    again = f" continues after step {first}" if first else ""
    print(f"process {rank} of {processes}{again} {task}", flush=True)
    inputs, wanted = (each[rank * ROWS // processes : (rank + 1) * ROWS // processes] for each in data())
    for number in range(first + 1, steps + 1):
        inner = np.tanh(inputs @ hidden)
        error = inner @ output - wanted
        slope = 2 * error / ROWS
        of_output = inner.T @ slope
        of_hidden = inputs.T @ ((slope @ output.T) * (1 - inner**2))
        sums = np.concatenate([[(error**2).sum() / ROWS], of_hidden.ravel(), of_output.ravel()])
        world.Allreduce(MPI.IN_PLACE, sums)
        hidden -= RATE * sums[1 : 1 + hidden.size].reshape(hidden.shape)
        output -= RATE * sums[1 + hidden.size :].reshape(output.shape)
        if rank == 0 and number % 50 == 0:
            print(f"step {number} loss {sums[0]:.12f}", flush=True)
        if rank == 0 and options.checkpoint is not None and number % options.every == 0 and number < steps:
            save(options.checkpoint, number, hidden, output)
        time.sleep(options.pause)
    if rank == 0 and first < steps:
        print(f"final loss {sums[0]:.12f}", flush=True)


if __name__ == "__main__":
    main()
