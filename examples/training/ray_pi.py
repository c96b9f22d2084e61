"""Estimate pi by tasks of Ray, and tell on how many nodes they ran.

peloton run --framework ray -n 3 -- python ray_member.py python ray_pi.py
"""

from __future__ import annotations

import argparse
import os
import random

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy


def hits(seed: int, points: int) -> int:
    """Return how many of some random points of a square are in its circle."""
    chance = random.Random(seed)
    return sum(chance.random() ** 2 + chance.random() ** 2 <= 1 for _ in range(points))


@ray.remote
def part(seed: int, points: int) -> tuple[int, str]:
    """Return the hits of a part, and the node that counted them."""
    return hits(seed, points), ray.get_runtime_context().get_node_id()


def on(node: str) -> ray.remote_function.RemoteFunction:
    """Return `part` for a node: tasks as short as these may all be done by the first one otherwise."""
    return part.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))


def main() -> None:
    """Count the parts on the cluster that `RAY_ADDRESS` names, or here."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", type=int, default=24)
    parser.add_argument("--points", type=int, default=20_000)
    options = parser.parse_args()
    if "RAY_ADDRESS" in os.environ:
        ray.init(logging_level="error")
        nodes = [each["NodeID"] for each in ray.nodes() if each["Alive"]]
        parts = [on(nodes[seed % len(nodes)]).remote(seed, options.points) for seed in range(options.parts)]
        found = ray.get(parts)
        print(f"{len({node for _, node in found})} nodes of {len(nodes)} have counted")
    else:
        found = [(hits(seed, options.points), "") for seed in range(options.parts)]
    print(f"pi is about {4 * sum(each for each, _ in found) / (options.parts * options.points):.6f}")


if __name__ == "__main__":
    main()
