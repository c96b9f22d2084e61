"""Train a small network on data that the script makes itself, by any number of PyTorch processes.

Alone it is one process. As a job of Peloton it is one process of a gang, and finds the others by the
variables that `env://` reads; torchrun finds them by its own:

    peloton run --framework torch -n 4 -- python train_torch.py --steps 200
    peloton run --framework torch -n 4 -- torchrun train_torch.py --steps 200

Each process has its part of the rows, and Gloo sums the gradients over all of them: the loss is that of one
process, whatever their number.
"""

from __future__ import annotations

import argparse
import os

import numpy as np
import torch
import torch.distributed as dist

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
    rank, processes = 0, 1
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        dist.init_process_group("gloo")
        rank, processes = dist.get_rank(), dist.get_world_size()
    print(f"process {rank} of {processes}", flush=True)
    chance = np.random.default_rng(1)
    hidden = torch.tensor(chance.normal(size=(INPUTS, HIDDEN)) / INPUTS**0.5, requires_grad=True)
    output = torch.tensor(chance.normal(size=(HIDDEN, 1)) / HIDDEN**0.5, requires_grad=True)
    part = slice(rank * ROWS // processes, (rank + 1) * ROWS // processes)
    inputs, wanted = (torch.tensor(each[part]) for each in data())
    for number in range(1, steps + 1):
        loss = ((torch.tanh(inputs @ hidden) @ output - wanted) ** 2).sum() / ROWS
        gradients = [*torch.autograd.grad(loss, [hidden, output]), loss.detach()]
        if processes > 1:
            for each in gradients:
                dist.all_reduce(each)
        with torch.no_grad():
            hidden -= RATE * gradients[0]
            output -= RATE * gradients[1]
        if rank == 0 and number % 50 == 0:
            print(f"step {number} loss {float(gradients[2]):.12f}", flush=True)
    if rank == 0:
        print(f"final loss {float(gradients[2]):.12f}", flush=True)
    if processes > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
