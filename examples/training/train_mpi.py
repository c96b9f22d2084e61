"""Train a small network on data that the script makes itself, by any number of MPI processes (mpi4py).

Alone it is one process. As a job of Peloton, `mpi_member.py` starts it by `mpirun` on all members of a gang:

    peloton run --framework mpi -n 4 -- python3 mpi_member.py python3 train_mpi.py --steps 200

Each process has its part of the rows, and an allreduce sums the gradients over all of them: the loss is that
of one process, whatever their number.
"""

from __future__ import annotations

import argparse
import os

import numpy as np
from mpi4py import MPI

ROWS, INPUTS, HIDDEN, RATE = 960, 8, 16, 0.05


def data() -> tuple[np.ndarray, np.ndarray]:
    """Make the rows of a function to learn, the same in every process."""
    chance = np.random.default_rng(7)
    inputs = chance.normal(size=(ROWS, INPUTS))
    return inputs, np.sin(inputs.sum(axis=1, keepdims=True)) + 0.5 * inputs[:, :1]


def main() -> None:
    """Train, and let the first process tell the loss."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps
    world = MPI.COMM_WORLD
    rank, processes = world.Get_rank(), world.Get_size()
    print(f"process {rank} of {processes} in task {os.environ.get('PELOTON_RANK', '-')}", flush=True)
    chance = np.random.default_rng(1)
    hidden = chance.normal(size=(INPUTS, HIDDEN)) / INPUTS**0.5
    output = chance.normal(size=(HIDDEN, 1)) / HIDDEN**0.5
    inputs, wanted = (each[rank * ROWS // processes : (rank + 1) * ROWS // processes] for each in data())
    for number in range(1, steps + 1):
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
    if rank == 0:
        print(f"final loss {sums[0]:.12f}", flush=True)


if __name__ == "__main__":
    main()
