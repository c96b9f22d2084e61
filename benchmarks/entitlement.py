"""Full entitlement of a tree of pools, in one process: `python -m benchmarks.entitlement`.

Prints the median of the CPU time of several rounds, each over four kinds, slack and non-slack:
`entitlement ms: N`, and the same with the capacity and the demand of each leaf in several classes of hosts:
`entitlement ms, 3 classes: N`.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # this folder has a resmgr too

from peloton.model.ids import ROOT_POOL, PoolId
from peloton.model.pool import KindConfig, PoolConfig, ReservationType
from peloton.model.resources import KINDS, Resources, total
from resmgr.core.entitlement.by_class import ClassedSnapshot, entitlements_by_class
from resmgr.core.entitlement.fair_share import Load, Snapshot, entitlements

CAPACITY = Resources.of(cpu=1_600_000, memory=12_800_000_000, disk=50_000_000_000, gpu=40_000)
CLASSES = 3
SHARES = (0.5, 1.0, 1.0, 1.0, 2.0, 3.7)


def snapshot(pools: int, depth: int, seed: int) -> Snapshot:
    """A tree `depth` levels below the root, reservations within the parents', more wanted than there is."""
    rng = random.Random(seed)
    parents = _parents(pools, depth)
    configs: list[PoolConfig] = []
    amounts: dict[PoolId, tuple[int, ...]] = {ROOT_POOL: CAPACITY.values()}
    families: dict[PoolId, list[PoolId]] = {}
    for pool_id, parent in parents.items():
        families.setdefault(parent, []).append(pool_id)
    for pool_id, parent in parents.items():
        part = len(families[parent])
        reserved = tuple(amount * 9 // (10 * part) for amount in amounts[parent])
        amounts[pool_id] = reserved
        configs.append(PoolConfig(pool_id, pool_id, parent, _kinds(rng, reserved)))
    leaves = [pool_id for pool_id in parents if pool_id not in families]
    loads = {pool_id: _load(rng, amounts[pool_id]) for pool_id in leaves}
    held = total(load.slack_allocation for load in loads.values())
    return Snapshot(configs, CAPACITY, held.cpu * 3 // 2, loads)


def _parents(pools: int, depth: int) -> dict[PoolId, PoolId]:
    """Every pool's parent, parents first; as many children each as reach the number at the given depth."""
    width = 2
    while sum(width**level for level in range(1, depth + 1)) < pools:
        width += 1
    level, parents = [ROOT_POOL], dict[PoolId, PoolId]()
    while len(parents) < pools:
        below = [(f"p{len(parents) + at}", parent) for at, parent in enumerate(level * width)]
        below = below[: pools - len(parents)]
        parents.update(below)
        level = [pool_id for pool_id, _ in below]
    return parents


def _kinds(rng: random.Random, reserved: tuple[int, ...]) -> dict[str, KindConfig]:
    return {
        name: KindConfig(
            amount,
            amount * rng.choice((1, 3, 10)),
            rng.choice(SHARES),
            rng.choice((ReservationType.ELASTIC, ReservationType.ELASTIC, ReservationType.STATIC)),
        )
        for name, amount in zip(KINDS, reserved, strict=True)
    }


def _load(rng: random.Random, reserved: tuple[int, ...]) -> Load:
    def some(percent: int) -> Resources:
        return Resources(*(amount * rng.randrange(percent + 1) // 100 for amount in reserved))

    return Load(some(120), some(120), some(10), some(30))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pools", type=int, default=1_000)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--classes", type=int, default=CLASSES)
    given = parser.parse_args()
    measured = given.pools, given.depth, given.rounds, given.seed
    print(f"entitlement ms: {milliseconds(*measured):.1f}", flush=True)
    print(f"entitlement ms, {given.classes} classes: {milliseconds_by_class(*measured, given.classes):.1f}")


def milliseconds(pools: int = 1_000, depth: int = 5, rounds: int = 15, seed: int = 1) -> float:
    """Of CPU, the median of the rounds."""
    subject = snapshot(pools, depth, seed)
    return _median(lambda: entitlements(subject), rounds)


def milliseconds_by_class(
    pools: int = 1_000, depth: int = 5, rounds: int = 15, seed: int = 1, classes: int = CLASSES
) -> float:
    """The same with several classes of hosts, all of which have some of each kind."""
    subject = in_classes(snapshot(pools, depth, seed), classes, seed)
    return _median(lambda: entitlements_by_class(subject), rounds)


def _median(work: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times) * 1000


def in_classes(whole: Snapshot, classes: int, seed: int) -> ClassedSnapshot:
    """Three quarters of the leaves have demand in one class, the others in all."""
    rng = random.Random(seed)
    loads: dict[PoolId, dict[int, Load]] = {}
    for pool_id, load in whole.loads.items():
        one = [rng.randrange(classes)] if rng.random() < 0.75 else range(classes)
        loads[pool_id] = dict.fromkeys(one, _part(load, len(one)))
    each = Resources(*(amount // classes for amount in whole.capacity.values()))
    return ClassedSnapshot(
        whole.pools, [each] * classes, [whole.revocable_cpu // classes] * classes, loads, {}
    )


def _part(load: Load, parts: int) -> Load:
    amounts = (load.allocation, load.demand, load.slack_allocation, load.slack_demand)
    return Load(*(Resources(*(amount // parts for amount in each.values())) for each in amounts))


if __name__ == "__main__":
    main()
