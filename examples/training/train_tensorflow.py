"""Train a small network on data that the script makes itself, by any number of TensorFlow workers.

Alone it is one process. As a job of Peloton it is one worker of a gang; `TF_CONFIG` tells it of the others:

    peloton run --framework tensorflow -n 4 -- python train_tensorflow.py --steps 200

Each worker has its part of the rows, and MultiWorkerMirroredStrategy sums the gradients over all of them: the
loss is that of one process, whatever their number. With `--checkpoint FILE`, which all workers can read, the
first one saves the weights, and a job that runs again continues there.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

ROWS, INPUTS, HIDDEN, RATE = 960, 8, 16, 0.05


def data() -> tuple[np.ndarray, np.ndarray]:
    """Make the rows of a function to learn, the same in every process."""
    chance = np.random.default_rng(7)
    inputs = chance.normal(size=(ROWS, INPUTS))
    return inputs, np.sin(inputs.sum(axis=1, keepdims=True)) + 0.5 * inputs[:, :1]


def saved(file: Path | None) -> tuple[int, dict[str, np.ndarray]]:
    """Return the last step that was saved with its weights; 0 with those to begin with where none was."""
    if file is not None and file.exists():
        with np.load(file) as found:
            return int(found["step"]), {name: found[name] for name in ("hidden", "output")}
    chance = np.random.default_rng(1)
    return 0, {
        "hidden": chance.normal(size=(INPUTS, HIDDEN)) / INPUTS**0.5,
        "output": chance.normal(size=(HIDDEN, 1)) / HIDDEN**0.5,
    }


class Network(tf.Module):
    """A hidden layer and an output."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        super().__init__()
        self.hidden, self.output = tf.Variable(weights["hidden"]), tf.Variable(weights["output"])

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return what the network takes for the function's value."""
        return tf.tanh(inputs @ self.hidden) @ self.output


def save(file: Path, number: int, network: Network) -> None:
    """Write the weights after a step: a file is there as a whole, or as it was before."""
    partly = file.with_name(f".{file.name}")
    with partly.open("wb") as opened:
        np.savez(opened, step=number, hidden=network.hidden.numpy(), output=network.output.numpy())
    partly.replace(file)


def main() -> None:
    """Train, and let the first worker tell the loss."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--checkpoint", type=Path, help="file of the weights, for all workers")
    parser.add_argument("--every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between steps, to watch it")
    options = parser.parse_args()
    told = json.loads(os.environ.get("TF_CONFIG", "{}"))
    rank = told["task"]["index"] if told else 0
    processes = len(told["cluster"]["worker"]) if told else 1
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if processes > 1 else tf.distribute.get_strategy()
    begin, first = saved(options.checkpoint)
    with strategy.scope():
        network = Network(first)
    print(f"process {rank} of {processes}" + (f" continues after step {begin}" if begin else ""), flush=True)
    part = slice(rank * ROWS // processes, (rank + 1) * ROWS // processes)
    inputs, wanted = (tf.constant(each[part]) for each in data())

    def of_worker() -> tf.Tensor:
        """Return the worker's part of the loss, and take a step by the gradients of all."""
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((network(inputs) - wanted) ** 2) / ROWS
        weights = [network.hidden, network.output]
        gradients = tape.gradient(loss, weights)
        context = tf.distribute.get_replica_context()
        gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.assign_sub(RATE * gradient)
        return loss

    @tf.function
    def step() -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(of_worker), axis=None)

    loss = None
    for at in range(begin + 1, options.steps + 1):
        loss = step()
        if rank == 0 and at % 50 == 0:
            print(f"step {at} loss {float(loss):.12f}", flush=True)
        if rank == 0 and options.checkpoint is not None and at % options.every == 0 and at < options.steps:
            save(options.checkpoint, at, network)
        time.sleep(options.pause)
    if rank == 0 and loss is not None:
        print(f"final loss {float(loss):.12f}", flush=True)


if __name__ == "__main__":
    main()
