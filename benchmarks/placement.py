"""The placement core in one process, without I/O: `python -m benchmarks.placement`.

Times are of the process's CPU and include the tables of hosts. Prints, one per line:

    5000 hosts, groups of 100, per second: N                      10,000 tasks
    5000 hosts, all different, per second: N                      10,000 tasks
    50000 hosts, constraints, groups of 100, per second: N        100,000 tasks
    50000 hosts, constraints, all different, per second: N        100,000 tasks
    openb GPUs allocated at 100 %: N                            of all GPUs (benchmarks/gpu_trace.py)
    openb GPUs allocated at 130 %: N
    mixed batch, hosts over FFD, %: N                           2,000 tasks (benchmarks/packing.py)
    small batches, hosts over the exact solver, %: N            the worst of 20

Of the tasks with constraints, a third name host labels, a third repel tasks with their own label, of which
there are 100, and a third have none.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # this folder has a placement too

from benchmarks import gpu_trace, packing
from peloton.model.constraint import Condition, Constraint, Kind, LabelConstraint
from peloton.model.resources import Resources
from placement.core.model import Gang, Host, HostClass, Needs, Task
from placement.core.plan import plan

TRACES = Path(__file__).resolve().parent.parent.parent / "shared" / "traces"
RACKS = 40
LABELS = 100
CPUS = (16, 32, 64)
MEMORY_MB = (65_536, 131_072, 262_144)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=Path, default=TRACES, help="their folder")
    parser.add_argument("--compare", action="store_true", help="print the GPU figures of every ranking")
    options = parser.parse_args()
    measure("5000 hosts, groups of 100", 5_000, 10_000, 100, constraints=False)
    measure("5000 hosts, all different", 5_000, 10_000, 1, constraints=False)
    measure("50000 hosts, constraints, groups of 100", 50_000, 100_000, 100, constraints=True)
    measure("50000 hosts, constraints, all different", 50_000, 100_000, 1, constraints=True)
    gpu_trace.report(options.traces, options.compare)
    packing.report()
    return 0


def measure(title: str, hosts: int, tasks: int, alike: int, constraints: bool) -> None:
    """Print how many tasks a second are planned, in groups of `alike` equal tasks."""
    chance = random.Random(11)
    table = [_host(number, chance) for number in range(hosts)]
    gangs = [gang for number in range(tasks // alike) for gang in _job(number, alike, constraints, chance)]
    began = time.process_time()
    planned = plan(gangs, table)
    seconds = time.process_time() - began
    assert len(planned.placed) == tasks, f"{len(planned.unplaced)} tasks have no place"
    print(f"{title}, per second: {tasks / seconds:.0f}", flush=True)


def _host(number: int, chance: random.Random) -> Host:
    free = Resources.of(chance.choice(CPUS), chance.choice(MEMORY_MB), 1e6)
    labels = (("rack", f"r{number % RACKS}"),)
    return Host(f"h{number}", f"a{number}", f"o{number}", None, free, ports=((31000, 31999),), labels=labels)


def _job(number: int, count: int, constraints: bool, chance: random.Random) -> list[Gang]:
    """Make gangs of one task each; those of different jobs differ in what they take."""
    resources = Resources(
        chance.randint(500, 6_000), chance.randint(10**6, 2 * 10**7), chance.randint(10**6, 10**7)
    )
    tree: Constraint | None = None
    labels: tuple[tuple[str, str], ...] = ()
    if constraints and number % 3 == 0:
        tree = LabelConstraint(Kind.HOST, Condition.EQUAL, ("rack", f"r{number % RACKS}"), 1)
    elif constraints and number % 3 == 1:
        labels = (("app", f"a{number % LABELS}"),)
        tree = LabelConstraint(Kind.TASK, Condition.LESS_THAN, labels[0], 1)
    host_class = HostClass(str(tree).encode() if tree is not None else b"", False, tree)
    needs = Needs(resources, host_class=host_class)
    job = f"job{number}"
    return [Gang(job, (Task(f"{job}-{i}", f"{job}-{i}-1", needs, "", labels),)) for i in range(count)]


if __name__ == "__main__":
    sys.exit(main())
