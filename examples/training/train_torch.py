"""Train a small network on data that the script makes itself, by any number of PyTorch processes.

Alone it is one process. As a job of Peloton it is one process of a gang, and finds the others by the
variables that `env://` reads; torchrun finds them by its own:

    peloton run --framework torch -n 4 -- python train_torch.py --steps 200
    peloton run --framework torch -n 4 -- torchrun train_torch.py --steps 200

Each process has its part of the rows, and Gloo sums the gradients over all of them: the loss is that of one
process, whatever their number. With `--checkpoint FILE`, which all processes can read, the first one saves
the weights, and processes that begin anew continue there, also where torchrun has others join or leave.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

ROWS, INPUTS, HIDDEN, RATE = 960, 8, 16, 0.05


def data() -> tuple[np.ndarray, np.ndarray]:
    """Make the rows of a function to learn, the same in every process."""
    chance = np.random.default_rng(7)
    inputs = chance.normal(size=(ROWS, INPUTS))
    return inputs, np.sin(inputs.sum(axis=1, keepdims=True)) + 0.5 * inputs[:, :1]


def network() -> list[torch.Tensor]:
    """Make the weights to begin with: of the hidden layer, and of the output."""
    chance = np.random.default_rng(1)
    hidden = chance.normal(size=(INPUTS, HIDDEN)) / INPUTS**0.5
    return [torch.tensor(hidden), torch.tensor(chance.normal(size=(HIDDEN, 1)) / HIDDEN**0.5)]


def save(file: Path, number: int, weights: list[torch.Tensor]) -> None:
    """Write the weights after a step: a file is there as a whole, or as it was before."""
    partly = file.with_name(f"{file.name}.part")
    torch.save([number, *(each.detach() for each in weights)], partly)
    partly.replace(file)


def begin(file: Path | None, rank: int, processes: int) -> tuple[int, list[torch.Tensor]]:
    """Return the last step that was saved with its weights: those that the first process reads."""
    number, weights = torch.tensor(0), network()
    if rank == 0 and file is not None and file.exists():
        step, *weights = torch.load(file)
        number = torch.tensor(step)
    if processes > 1:
        for each in (number, *weights):
            dist.broadcast(each, src=0)
    return int(number), [each.requires_grad_() for each in weights]


def main() -> None:
    """Train, and let the first process tell the loss."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--checkpoint", type=Path, help="file of the weights, for all processes")
    parser.add_argument("--every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between steps, to watch it")
    options = parser.parse_args()
    steps: int = options.steps
    rank, processes = 0, 1
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        dist.init_process_group("gloo")
        rank, processes = dist.get_rank(), dist.get_world_size()
    first, weights = begin(options.checkpoint, rank, processes)
    print(f"process {rank} of {processes}" + (f" continues after step {first}" if first else ""), flush=True)
    hidden, output = weights
    part = slice(rank * ROWS // processes, (rank + 1) * ROWS // processes)
    inputs, wanted = (torch.tensor(each[part]) for each in data())
    for number in range(first + 1, steps + 1):
        loss = ((torch.tanh(inputs @ hidden) @ output - wanted) ** 2).sum() / ROWS
        gradients = [*torch.autograd.grad(loss, weights), loss.detach()]
        if processes > 1:
            for each in gradients:
                dist.all_reduce(each)
        with torch.no_grad():
            hidden -= RATE * gradients[0]
            output -= RATE * gradients[1]
        if rank == 0 and number % 50 == 0:
            print(f"step {number} loss {float(gradients[2]):.12f}", flush=True)
        if rank == 0 and options.checkpoint is not None and number % options.every == 0 and number < steps:
            save(options.checkpoint, number, weights)
        time.sleep(options.pause)
    if rank == 0 and first < steps:
        print(f"final loss {float(gradients[2]):.12f}", flush=True)
    if processes > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
