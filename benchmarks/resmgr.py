"""The resource manager's core in one process, without I/O: `python -m benchmarks.resmgr --tasks 1000000`.

A million gangs are enqueued, admitted and dequeued and stay resident; a tenth as many again go the same way
beside them. Then all are placed, run and ended. Times are of the process's CPU. Prints, one per line:

    gangs per second: N             through enqueue, admit and dequeue, with the million resident
    gangs per second, filling: N    the same of the million itself
    lives per second: N             from placed to ended, all resident at the start
    bytes per task: N               growth of the process's peak memory, with every task placing
    entitlement ms: N               of 1,000 pools five deep, four kinds (benchmarks/entitlement.py)
    entitlement ms, 3 classes: N    the same where capacity and demand are in three classes of hosts
    preemption seconds: N           39,000 of 100,000 running tasks (benchmarks/preemption.py)
    preemption longest step ms: N   of a check with all running, in one pool that is over
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # this folder has a resmgr too

from benchmarks import entitlement, preemption
from peloton.model.ids import Run
from peloton.model.pool import KindConfig, PoolConfig
from peloton.model.resources import KINDS, Resources
from peloton.model.states import TaskState, TaskType
from resmgr.__main__ import COLLECTION
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.entities import Gang
from resmgr.core.state.limits import Limits
from resmgr.core.state.needs import Needs, NewTask
from resmgr.core.state.placements import Proposal

AMPLE = 10**15
PER_JOB = 1000
PER_CALL = 1000
PER_HOST = 10


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=1_000_000)
    tasks: int = parser.parse_args().tasks
    gc.set_threshold(*COLLECTION)
    measure_gangs(tasks)
    gc.collect()
    print(f"entitlement ms: {entitlement.milliseconds():.1f}", flush=True)
    of_classes = entitlement.milliseconds_by_class()
    print(f"entitlement ms, {entitlement.CLASSES} classes: {of_classes:.1f}", flush=True)
    print(f"preemption seconds: {preemption.measured().seconds:.2f}", flush=True)
    print(f"preemption longest step ms: {preemption.longest_step(tasks, tasks * 39 // 100):.0f}", flush=True)
    return 0


def measure_gangs(tasks: int) -> None:
    """Prints the figures of `tasks` gangs of one task each."""
    scheduler, extra = prepared(), max(tasks // 10, 1)
    before, begun = peak(), time.process_time()
    enqueue(scheduler, range(tasks))
    gangs = drain(scheduler)
    filled = time.process_time()
    memory = peak() - before
    enqueue(scheduler, range(tasks, tasks + extra))
    gangs += drain(scheduler)
    dequeued = time.process_time()
    assert len(gangs) == len(scheduler.registry) == tasks + extra
    live(scheduler, gangs)
    ended = time.process_time()
    assert len(scheduler.registry) == 0
    print(f"gangs per second: {extra / (dequeued - filled):.0f}")
    print(f"gangs per second, filling: {tasks / (filled - begun):.0f}")
    print(f"lives per second: {(tasks + extra) / (ended - dequeued):.0f}")
    print(f"bytes per task: {memory / tasks:.0f}", flush=True)


def prepared() -> Scheduler:
    """One leaf three levels below the root, with room for everything."""
    scheduler = Scheduler(Limits(ready_limit=AMPLE))
    kinds = {kind: KindConfig(AMPLE, AMPLE) for kind in KINDS}
    for name, parent in (("a", "root"), ("b", "a"), ("c", "b")):
        scheduler.tree.insert(PoolConfig(name, name, parent, kinds))
    scheduler.set_capacity(Resources(AMPLE, AMPLE, AMPLE, AMPLE), Resources())
    return scheduler


def enqueue(scheduler: Scheduler, numbers: range) -> None:
    pool = scheduler.tree.get("c")
    needs = Needs(Resources.of(1, 1024, 1024), preemptible=True)
    job = ""
    for number in numbers:
        instance = number % PER_JOB
        if not instance or not job:
            job = str(uuid.UUID(int=number // PER_JOB))
        scheduler.enqueue(pool, [NewTask(job, instance, 1, needs)], 1.0)


def drain(scheduler: Scheduler) -> list[Gang]:
    holder = scheduler.leases.touch("placement/one", 1.0)
    gangs: list[Gang] = []
    more = True
    while more:
        more = scheduler.admit(2.0)
        while taken := scheduler.dequeue(TaskType.BATCH, PER_CALL, holder, 3.0):
            gangs += taken
    return gangs


def live(scheduler: Scheduler, gangs: list[Gang]) -> None:
    engine = scheduler.leases.touch("placement/one", 4.0)
    jobmgr = scheduler.leases.touch("jobmgr/one", 4.0)
    for first in range(0, len(gangs), PER_CALL):
        runs = [task.key for gang in gangs[first : first + PER_CALL] for task in gang.tasks]
        hosts = [tuple(runs[at : at + PER_HOST]) for at in range(0, len(runs), PER_HOST)]
        rejected = scheduler.propose(engine, [on_host(at, some) for at, some in enumerate(hosts)], [], 4.0)
        assert not rejected
        for given in scheduler.hand_over(PER_CALL, jobmgr, 5.0):
            for run in given.runs:
                scheduler.observe(run, TaskState.LAUNCHED, 5.0)
        for state in (TaskState.RUNNING, TaskState.SUCCEEDED):
            for run in runs:
                scheduler.observe(run, state, 6.0)


def on_host(number: int, runs: tuple[Run, ...]) -> Proposal:
    return Proposal(f"host{number}", f"agent{number}", f"offer{number}", TaskType.BATCH, runs)


def peak() -> int:
    """Bytes of resident memory at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    raise SystemExit(main())
