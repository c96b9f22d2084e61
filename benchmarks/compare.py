"""How fast this checkout is beside another commit, measured in turns on one machine.

    python -m benchmarks.compare COMMIT [OTHER] [--benchmark NAME] [--rounds N] [--partial] [--compiled]
                                 [-- ARGUMENTS]

Each round runs benchmarks/NAME.py of both commits, with ARGUMENTS, each with its own files: one round
COMMIT first, the next one OTHER first. OTHER is this checkout as it is if it is not given. A commit
whose pins are what is installed here shares the environment, another one gets its own by its `make setup`.
With --compiled OTHER runs its compiled modules, and COMMIT runs plain.

Prints for each figure that both print the medians, the geometric mean of new/old by rounds with its 95 %
confidence interval, and the least and the greatest ratio; "better" or "worse" where the interval leaves
out 1. Two figures are added: the CPU seconds of all processes of a run, and that CPU per task where
ARGUMENTS have --tasks. On a machine with other work compare CPU, not the clock's time.
The load is that of before each run, and what other processes took of the CPUs during it.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.checkouts import ROOT, Checkout, checkout, compiled, working_tree
from benchmarks.ratios import figures, ratios, table
from minicluster.processes import uninterrupted
from minicluster.temporary import run_program
from peloton.errors import PelotonError

ENDING_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures by name. `load`: average of one minute before the run; `others`: part of all CPUs, 0 to 1."""

    figures: dict[str, float]
    load: float
    others: float


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    options = parsed(arguments)
    return run_program("compare", lambda: compare(options, root))


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    given = list(sys.argv[1:] if arguments is None else arguments)
    own, rest = (given[: given.index("--")], given[given.index("--") + 1 :]) if "--" in given else (given, [])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit", metavar="COMMIT", help="what to compare with, the old one")
    parser.add_argument(
        "other", metavar="OTHER", nargs="?", help="the new one; default: this checkout as it is"
    )
    parser.add_argument("--benchmark", metavar="NAME", default="throughput", help="default: throughput")
    parser.add_argument("--rounds", type=int, default=4, help="even numbers are fair to both orders")
    parser.add_argument("--partial", action="store_true", help="take what a run that failed printed before")
    parser.add_argument("--compiled", action="store_true", help="compile OTHER, and run it so")
    options = parser.parse_args(own)
    if options.rounds < 1:
        parser.error(f"--rounds: {options.rounds} is not 1 or more")
    options.arguments = rest
    return options


def compare(options: argparse.Namespace, root: Path) -> int:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="peloton-compare-")))
        old = stack.enter_context(checkout(options.commit, folder / "old", root))
        if options.other is None:
            new = working_tree(root)
        else:
            new = stack.enter_context(checkout(options.other, folder / "new", root))
        if options.compiled:
            new = compiled(new)
        for side, name in ((old, "old"), (new, "new")):
            own = "" if side.shared else ", with an environment of its own"
            print(f"{name}: {side.label}{own}", flush=True)
        return measure(old, new, options)


def measure(old: Checkout, new: Checkout, options: argparse.Namespace) -> int:
    found: dict[Checkout, list[Measured]] = {old: [], new: []}
    for number in range(options.rounds):
        for side in (old, new) if number % 2 == 0 else (new, old):
            one = run(side, options, number)
            found[side].append(one)
            name = "old" if side is old else "new"
            print(f"round {number + 1} {name}: load {one.load:.1f}, others {one.others:.0%}", file=sys.stderr)
    rows = ratios([each.figures for each in found[old]], [each.figures for each in found[new]])
    if not rows:
        raise PelotonError(f"{options.benchmark}: the two commits print no figure of the same name")
    print(table(rows))
    print(loads(found[old] + found[new]))
    return 0


def loads(runs: Sequence[Measured]) -> str:
    load, others = [each.load for each in runs], [each.others for each in runs]
    return (
        f"load before each run {min(load):.1f}..{max(load):.1f} on {os.cpu_count()} CPUs; "
        f"other processes took {min(others):.0%}..{max(others):.0%} of them"
    )


def run(side: Checkout, options: argparse.Namespace, number: int) -> Measured:
    """Run one benchmark. Raise PelotonError, with the end of what it said, if it fails (see --partial)."""
    load, busy, own, begun = os.getloadavg()[0], busy_seconds(), cpu_of_children(), time.monotonic()
    # The order of sets and so on is the same on both sides of a round.
    environment = {**os.environ, **side.variables(), "PYTHONHASHSEED": str(number)}
    command = [str(side.python), "-m", f"benchmarks.{options.benchmark}", *options.arguments]
    with started(command, side.path, environment) as process:
        said, errors = process.communicate()
    if process.returncode and not options.partial:
        failed = f"{options.benchmark} of {side.label} ended with code {process.returncode}"
        raise PelotonError(f"{failed}: {errors[-2000:]}")
    spent, seconds = cpu_of_children() - own, time.monotonic() - begun
    others = max(busy_seconds() - busy - spent, 0) / (seconds * (os.cpu_count() or 1))
    return Measured(figures(said) | spent_figures(spent, options.arguments), load, min(others, 1.0))


@contextmanager
def started(
    command: Sequence[str], folder: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """A process with a session of its own, which is asked to end, and then made to, when the body is left."""
    with ExitStack() as stack:
        with uninterrupted():
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            stack.callback(end, process)
        yield process


def end(process: subprocess.Popen[str]) -> None:
    """Ask a benchmark to end: it takes down what it started. Kill its session if it does not in time."""
    if process.poll() is not None:
        return
    with uninterrupted():
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=ENDING_SECONDS)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def spent_figures(seconds: float, arguments: Sequence[str]) -> dict[str, float]:
    found = {"CPU seconds, whole run": seconds}
    if "--tasks" in arguments:
        tasks = int(arguments[list(arguments).index("--tasks") + 1])
        found["CPU microseconds per task, whole run"] = seconds / tasks * 1e6
    return found


def cpu_of_children() -> float:
    """Seconds of all that ended and was waited for, with what those waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def busy_seconds() -> float:
    """Of all CPUs since the machine started."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


if __name__ == "__main__":
    sys.exit(main())
