"""Choosing whom to preempt, in one process: `python -m benchmarks.preemption`.

One leaf runs 100,000 preemptible tasks of several sizes and priorities and is over its entitlement by
what 39,000 of them hold. Prints, one per line:

    preempted tasks: N
    preemption seconds: N     of CPU, from the tasks' rows to the victims and their reasons
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import uuid
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # this folder has a resmgr too

from peloton.model.ids import Run
from peloton.model.states import TaskState
from resmgr.core.preemption.decide import Memory, Rules, decide, prepare
from resmgr.core.preemption.strikes import Strikes
from resmgr.core.preemption.view import Candidate, Candidates, PoolView, View
from resmgr.core.tasks import Vector

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
    figures = measured(given.tasks, given.victims, given.gangs, given.seed)
    print(f"preempted tasks: {figures.tasks}")
    print(f"preemption seconds: {figures.seconds:.2f}")


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
    view, memory = prepare(View((over, heir)), memory, rules, 100_000.0)
    taken, _ = decide(view, memory, rules, 100_000.0)
    seconds = time.process_time() - begun
    return Figures(sum(len(victim.runs) for victim in taken), seconds)


if __name__ == "__main__":
    main()
