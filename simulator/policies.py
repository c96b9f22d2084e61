"""The contract of policies that are plugged in, as checks for their tests (docs/policies.md).

Each check calls the policy with many drawn inputs, and raises BrokenContract with what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

import numpy as np

from hostmgr.core.claims.lifecycle import PLACING_SECONDS
from peloton.model.columns import column
from peloton.model.pool import KindConfig, PoolConfig, ReservationType
from peloton.model.resources import Resources
from peloton.model.states import PlacementStrategy, TaskType
from placement.core.model import Gang, Host, HostClass, Needs, Task
from placement.core.policy import FreeHosts, HostScore, TaskAmounts
from placement.core.strategy import Strategy
from resmgr.core.preemption.order import Takeable, VictimOrder
from resmgr.core.state.entitlement_policy import EntitlementPolicy, SharingPools, sharing_pools
from resmgr.core.state.queue_order import QueuedGang, QueueOrder, turn_of

ROUNDS = 100
MOST_ROWS = 50
MOST_POOLS = 12


class BrokenContract(AssertionError):
    """A policy does not do what Peloton relies on."""


def check_host_score(score: HostScore, rounds: int = ROUNDS) -> None:
    """Check that a score is one comparable number for each host, by its input alone and without effects."""
    random = Random(0)
    for _ in range(rounds):
        hosts, task = _hosts(random), _task(random)
        given = (hosts.cpu, hosts.memory, hosts.disk, hosts.gpu)
        _check("score of hosts", partial(_alone, score, hosts, task), len(hosts), given)


def _alone(score: HostScore, hosts: FreeHosts, task: TaskAmounts) -> list[Any]:
    return [score(hosts, task)]


def check_victim_order(order: VictimOrder, rounds: int = ROUNDS) -> None:
    """Check that an order is columns of comparable numbers, by its input alone and without effects."""
    random = Random(0)
    for _ in range(rounds):
        gangs, now = _gangs(random), random.uniform(0.0, 1e6)
        _check("order of victims", partial(order, gangs, now), len(gangs.state), tuple(gangs))


def check_entitlement(policy: EntitlementPolicy, rounds: int = ROUNDS) -> None:
    """Check that an entitlement is four comparable numbers for each pool, by its input alone."""
    random = Random(0)
    for _ in range(rounds):
        pools, capacity = _pools(random)
        given = (*(each for each in pools if isinstance(each, np.ndarray)), capacity)
        call = partial(_by_kind, policy, pools, capacity)
        _check("entitlement of pools", call, len(pools.path), given)


def _by_kind(policy: EntitlementPolicy, pools: SharingPools, capacity: Any) -> list[Any]:
    found = np.asarray(policy(pools, capacity))
    if found.shape != pools.limit.shape:
        raise BrokenContract(f"the entitlement of pools has the shape {found.shape}, not {pools.limit.shape}")
    return list(found.T)


def check_queue_order(order: QueueOrder, rounds: int = ROUNDS) -> None:
    """Check that an order of a queue is one comparable number for each gang, by its input alone."""
    random = Random(0)
    for _ in range(rounds):
        gang = _queued(random)
        try:
            found, again = turn_of(order, gang), turn_of(order, gang)
        except ValueError as error:
            raise BrokenContract(str(error)) from None
        if found != again:
            raise BrokenContract("the order of a queue differs between two calls with the same input")


def check_strategy(make: Callable[[TaskType, float], Strategy], rounds: int = ROUNDS) -> None:
    """Check that strategies are of their types, and keep gangs for different hosts apart."""
    random = Random(0)
    for kind in (TaskType.BATCH, TaskType.STATELESS):
        strategy = make(kind, 0.0)
        if strategy.type is not kind or not 0 < strategy.longest < PLACING_SECONDS:
            raise BrokenContract(
                f"the strategy for {kind.name} tasks is for {strategy.type.name} ones, and tries gangs for "
                f"{strategy.longest} s: should be above 0, and below the {PLACING_SECONDS:g} s of a claim"
            )
        hosts_of: dict[Hashable, frozenset[HostClass]] = {}
        for _ in range(rounds):
            gang = _gang(random)
            family = strategy.family(gang)
            if family != strategy.family(gang) or strategy.policy(family) != strategy.policy(family):
                raise BrokenContract("the strategy differs between two calls with the same input")
            hosts = frozenset(needs.host_class for needs, _ in gang.shape)
            if hosts_of.setdefault(family.key, hosts) != hosts:
                raise BrokenContract(f"gangs for different hosts are in one family: {family.key}")


def _gang(random: Random) -> Gang:
    classes = [HostClass(name.encode(), gpu, None) for name in ("", "rack") for gpu in (False, True)]
    tasks = []
    for number in range(random.randint(1, 3)):
        needs = Needs(
            Resources.of(random.randint(1, 4)), 0, random.random() < 0.2, random.choice(classes), ()
        )
        tasks.append(Task(f"t-{number}", f"t-{number}-1", needs, random.choice(("", "h1")), ()))
    spread = random.choice(list(PlacementStrategy))
    return Gang(f"job-{random.randrange(3)}", tuple(tasks), spread)


def _check(what: str, call: Callable[[], Any], rows: int, given: tuple[np.ndarray[Any, Any], ...]) -> None:
    before = [values.copy() for values in given]
    found, again = list(call()), list(call())
    if any(not np.array_equal(old, new) for old, new in zip(before, given, strict=True)):
        raise BrokenContract(f"the {what} has changed what it was given")
    try:
        columns = [[column(values, rows, what) for values in each] for each in (found, again)]
    except ValueError as error:
        raise BrokenContract(str(error)) from None
    same = len(columns[0]) == len(columns[1])
    if not same or any(not np.array_equal(one, two) for one, two in zip(*columns, strict=True)):
        raise BrokenContract(f"the {what} differs between two calls with the same input")


def _pools(random: Random) -> tuple[SharingPools, Any]:
    count = random.randint(1, MOST_POOLS)
    parents = [-1, *(random.randrange(row) for row in range(1, count))]
    kinds = ("cpu", "memory", "disk", "gpu")
    configs = [PoolConfig("root", "root", "")]
    for row in range(1, count):
        amounts = {
            kind: KindConfig(
                reservation=random.randrange(100_000),
                limit=random.randrange(1_000_000),
                share=float(random.randrange(4)),
                type=random.choice(list(ReservationType)),
            )
            for kind in kinds
        }
        configs.append(PoolConfig(f"p{row}", f"p{row}", f"p{parents[row]}", amounts))
    order = sorted(range(count), key=lambda row: _depth(parents, row))
    place = {row: at for at, row in enumerate(order)}
    above = [place[parents[row]] if row else -1 for row in order]
    children = [[at for at, parent in enumerate(above) if parent == row] for row in range(count)]
    needs = [[0 if below else random.randrange(200_000) for _ in kinds] for below in children]
    capacity = [random.randrange(1_000_000) for _ in kinds]
    pools = sharing_pools([configs[row] for row in order], children, capacity, needs, needs)
    return pools, np.array(capacity, np.int64)


def _depth(parents: list[int], row: int) -> int:
    return 0 if row <= 0 else 1 + _depth(parents, parents[row])


def _queued(random: Random) -> QueuedGang:
    cpu, memory, disk, gpu = (random.randrange(1_000_000) for _ in range(4))
    preemptible, controller, revocable = (random.random() < 0.5 for _ in range(3))
    labels = tuple([(f"key-{at}", f"value-{at}") for at in range(random.randrange(3))])
    return QueuedGang(
        f"/p{random.randrange(5)}",
        str(UUID(int=random.getrandbits(128))),
        random.randrange(10),
        random.randrange(1, 100),
        cpu,
        memory,
        disk,
        gpu,
        preemptible,
        controller,
        revocable,
        labels,
    )


def _hosts(random: Random) -> FreeHosts:
    count = random.randint(1, MOST_ROWS)
    hosts = []
    for number in range(count):
        free = Resources(*(random.choice([0, random.randrange(1_000_000)]) for _ in range(4)))
        hosts.append(Host(f"h{number}", f"a{number}", f"o{number}", None, free, labels=(("rack", "a"),)))
    cpu, memory, disk, gpu = np.array([each.free.values() for each in hosts], np.int64).T.copy()
    return FreeHosts(cpu, memory, disk, gpu, hosts=hosts, rows=np.arange(count))


def _task(random: Random) -> TaskAmounts:
    cpu, memory, disk, gpu = (random.choice([0, random.randrange(100_000)]) for _ in range(4))
    return TaskAmounts(cpu, memory, disk, gpu, random.random() < 0.5)


def _gangs(random: Random) -> Takeable:
    count = random.randint(0, MOST_ROWS)

    def numbers(most: int) -> list[int]:
        return [random.randrange(most) for _ in range(count)]

    return Takeable(
        state=np.array(numbers(3), np.int64),
        priority=np.array(numbers(5), np.int64),
        extra=np.array(numbers(2), np.bool_),
        work_from=np.array(numbers(1_000_000), np.float64),
        size=np.array(numbers(4), np.int64) + 1,
        frees=np.array([numbers(100_000) for _ in range(8)], np.int64).T.reshape(count, 8),
    )
