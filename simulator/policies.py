"""The contract of policies that are plugged in, as checks for their tests (docs/policies.md).

Each check calls the policy with many drawn inputs, and raises BrokenContract with what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import numpy as np

from peloton.model.columns import column
from peloton.model.resources import Resources
from placement.core.model import Host
from placement.core.policy import FreeHosts, HostScore, TaskAmounts
from resmgr.core.preemption.order import Takeable, VictimOrder

ROUNDS = 100
MOST_ROWS = 50


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
