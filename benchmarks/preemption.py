"""Choosing whom to preempt, in one process: `python -m benchmarks.preemption`.

One leaf runs 100,000 preemptible tasks of several sizes and priorities and is over its entitlement by
what 39,000 of them hold. Prints, one per line:

    preempted tasks: N
    preemption seconds: N           of CPU, from the tasks' rows to the victims and their reasons
    preemption longest step ms: N   of CPU, of a whole check with a million tasks in one pool that is over

The last is how long others wait at most while a check goes on (resmgr.core.state.cooperative).
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
import uuid
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # this folder has a resmgr too

from peloton.model.ids import ROOT_POOL, Run
from peloton.model.pool import KindConfig, PoolConfig
from peloton.model.resources import KINDS, Resources
from peloton.model.states import TaskState
from resmgr.__main__ import COLLECTION
from resmgr.core.preemption.decide import Memory, Rules, prepare, steps
from resmgr.core.preemption.execution import Preemptor
from resmgr.core.preemption.over_entitlement import Strikes
from resmgr.core.preemption.view import Candidate, Candidates, PoolView, View
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.amounts import Vector
from resmgr.core.state.needs import Needs, NewTask

MILLI = 1000
PER_JOB = 1000
STATES = (TaskState.READY, TaskState.PLACING, TaskState.RUNNING, TaskState.RUNNING, TaskState.RUNNING)


def candidates(tasks: int, gangs: int, seed: int) -> list[Candidate]:
    """All of the same cpu; memory, disk and the rest differ. The first `gangs` pairs are gangs of two."""
    rng = random.Random(seed)
    jobs = [str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(tasks // PER_JOB + 1)]
    rows = []
    for number in range(tasks):
        gang = number // 2 if number < 2 * gangs else number
        amount: Vector = (MILLI, rng.randrange(1, 64) * MILLI, rng.choice((0, 1024, 4096)) * MILLI, 0)
        rows.append(
            Candidate(
                run=Run(jobs[number // PER_JOB], number % PER_JOB, 1),
                gang=gang,
                amount=amount,
                state=rng.choice(STATES),
                priority=rng.randrange(10),
                started=rng.random() * 86_400,
                preemptible=True,
            )
        )
    return rows


class Figures(NamedTuple):
    """`seconds` are of CPU."""

    tasks: int
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--victims", type=int, default=39_000)
    parser.add_argument("--gangs", type=int, default=1_000, help="pairs of tasks that belong together")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    gc.set_threshold(*COLLECTION)
    figures = measured(given.tasks, given.victims, given.gangs, given.seed)
    print(f"preempted tasks: {figures.tasks}")
    print(f"preemption seconds: {figures.seconds:.2f}")
    print(f"preemption longest step ms: {longest_step():.0f}")


def longest_step(tasks: int = 1_000_000, victims: int = 390_000, limit: int = 10_000) -> float:
    """In milliseconds. The tasks run; `limit` of the victims at most are taken, as may wait for jobmgr."""
    scheduler = running(tasks)
    rest = tasks - victims
    scheduler.set_capacity(Resources.of(rest, 1024 * tasks, 1024 * tasks), Resources())
    gc.collect()
    steps = Preemptor(scheduler.lifecycle, scheduler.sharing, Rules(strikes=1), limit).steps(100_000.0)
    longest, taken = 0.0, 0
    while not taken:
        begun = time.process_time()
        try:
            next(steps)
        except StopIteration as end:
            taken = len(end.value)
        longest = max(longest, time.process_time() - begun)
    assert taken == min(limit, victims)
    return longest * 1000


def running(tasks: int) -> Scheduler:
    """One leaf whose tasks run since different times."""
    rng, scheduler = random.Random(1), Scheduler()
    kinds = {kind: KindConfig(0, 10**15) for kind in KINDS}
    pool = scheduler.tree.insert(PoolConfig("over", "over", ROOT_POOL, kinds))
    needs = [Needs(Resources.of(1, size, 1024), priority=size % 3, preemptible=True) for size in range(1, 65)]
    job = ""
    for number in range(tasks):
        if not number % PER_JOB:
            job = str(uuid.UUID(int=rng.getrandbits(128)))
        new = NewTask(job, number % PER_JOB, 1, rng.choice(needs))
        scheduler.restore(pool, new, TaskState.RUNNING, f"h{number // 100}", rng.random() * 86_400)
    return scheduler


def measured(tasks: int = 100_000, victims: int = 39_000, gangs: int = 1_000, seed: int = 1) -> Figures:
    rows = candidates(tasks, gangs, seed)
    held = [sum(amounts) for amounts in zip(*(row.amount for row in rows), strict=True)]
    bound = (held[0] - victims * MILLI, held[1], held[2], held[3])
    rules, memory = Rules(), Memory(Strikes({"/over": 4}))
    begun = time.process_time()
    over = PoolView(
        "/over",
        allocation=(held[0], held[1], held[2], held[3]),
        entitlement=bound,
        candidates=Candidates.of(rows),
    )
    heir = PoolView("/heir", entitlement=(victims * MILLI, 0, 0, 0), demand=(held[0], 0, 0, 0))
    view, _ = prepare(View((over, heir)), memory, rules, 100_000.0)
    taken = [victim for victim in steps(view, rules, 100_000.0) if victim is not None]
    seconds = time.process_time() - begun
    return Figures(sum(len(victim.runs) for victim in taken), seconds)


if __name__ == "__main__":
    main()
