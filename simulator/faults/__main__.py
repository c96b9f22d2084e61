"""`make simulate-faults`: seeds of faults over all daemons together; `--mutations` plants bugs.

Prints the one line that repeats a failure, shrunk. Exits with 1 where an invariant does not hold, or a
planted bug is not found.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from simulator.faults.mutations import MUTATIONS, OF_ASKS
from simulator.faults.plan import Plan, draw
from simulator.faults.search import Failure, attempt, first_failure, shrink

SEEDS = 2000
NONE, ALL = "none", "all"


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m simulator.faults", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many seeds to try")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="repeat one seed")
    parser.add_argument("--faults", help="of that seed, only the faults with these numbers, or none")
    parser.add_argument("--jobs", help="of that seed, only the jobs with these numbers")
    parser.add_argument(
        "--asks",
        help="of that seed, only the asks with these numbers. Of all seeds and of --mutations: none, or all; "
        "where it is left out, planted bugs that the jobs alone find are looked for without asks",
    )
    parser.add_argument("--mutation", choices=sorted(MUTATIONS), help="plant a bug")
    parser.add_argument(
        "--mutations", action="store_true", help="plant each bug in turn; tell which seed finds it"
    )
    parser.add_argument("--whole", action="store_true", help="do not shrink")
    options = parser.parse_args(argv)
    if options.seeds < 1 or options.first < 0:
        parser.error("at least one seed is tried, from 0 on")
    if options.seed is None and options.asks not in (None, NONE, ALL):
        parser.error(f"--asks {options.asks}: {NONE} or {ALL}; --seed chooses among the asks of one seed")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is asked for; return the exit code."""
    options = _arguments(argv)
    if options.mutations:
        return _check_mutations(range(options.first, options.first + options.seeds), options.asks)
    mutate, began = MUTATIONS.get(options.mutation or ""), time.monotonic()
    if options.seed is not None:
        plan = _chosen(draw(options.seed), options.faults, options.jobs, options.asks)
        tried = f"seed {options.seed}"
        failure = attempt(plan, mutate, options.mutation or "")
    else:
        wanted = range(options.first, options.first + options.seeds)
        tried = f"seeds {wanted.start} to {wanted.stop - 1}"
        failure = first_failure(wanted, mutate, options.mutation or "", options.asks != NONE)
    if failure is None:
        print(f"all invariants hold: {tried}, {time.monotonic() - began:.1f} s")
        return 0
    if not options.whole and options.seed is None:
        failure = shrink(failure, mutate)
    _tell(failure)
    return 1


def _chosen(plan: Plan, faults: str | None, jobs: str | None, asks: str | None) -> Plan:
    return plan.only(
        plan.kept if faults is None else _numbers(faults),
        plan.numbers if jobs is None else _numbers(jobs),
        plan.asked if asks in (None, ALL) else _numbers(asks),
    )


def _numbers(text: str) -> list[int]:
    return [] if text == NONE else [int(each) for each in text.split(",")]


def _check_mutations(seeds: range, asks: str | None) -> int:
    missed = []
    for name, mutate in MUTATIONS.items():
        if asks == NONE and name in OF_ASKS:
            continue
        began = time.process_time()
        failure = first_failure(seeds, mutate, name, asks == ALL or name in OF_ASKS)
        spent = f"{time.process_time() - began:.1f} s of CPU"
        if failure is None:
            missed.append(name)
            print(f"{name}: not found by {len(seeds)} seeds, {spent}", flush=True)
        else:
            print(f"{name}: found by seed {failure.plan.seed}, {spent}: {failure.error}", flush=True)
    return 1 if missed else 0


def _tell(failure: Failure) -> None:
    print(failure.error)
    for job, number in zip(failure.plan.jobs, failure.plan.numbers, strict=True):
        print(f"  job {number}: {job.job.name}, instances: {job.job.instances}, at {job.job.submit:.1f} s")
    for ask, number in zip(failure.plan.asks, failure.plan.asked, strict=True):
        print(f"  ask {number}: {ask}")
    for fault, number in zip(failure.plan.faults, failure.plan.kept, strict=True):
        print(f"  fault {number}: {fault}")
    for line in failure.history:
        print(f"  {line}")
    print(f"repeat it with: {failure.line}")


if __name__ == "__main__":
    sys.exit(main())
