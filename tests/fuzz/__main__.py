"""`make fuzz COUNT=1000000 SEED=1`, or `python -m tests.fuzz --help`.

The surfaces are tried by several processes at a time. What is found is printed with how to repeat it; the
exit code is 1 then.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence

from tests.fuzz.engine import Report
from tests.fuzz.surfaces import SHARES, run_piece

PIECE = 25_000
"""Inputs that a process tries before it is replaced by a new one, at most."""
Piece = tuple[str, int, int, int]
"""Surface, seed, first input, number of inputs."""


def pieces(count: int, seed: int, surfaces: Sequence[str]) -> Iterator[Piece]:
    """Deal the inputs among surfaces and processes, those of the slowest surface first."""
    whole = sum(SHARES[name] for name in surfaces)
    for name in sorted(surfaces, key=lambda each: -SHARES[each]):
        wanted = max(1, round(count * SHARES[name] / whole))
        for first in range(0, wanted, PIECE):
            yield name, seed, first, min(PIECE, wanted - first)


def main(argv: Sequence[str] | None = None) -> int:
    """Try inputs; return 0 where nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, help="inputs (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="0 takes a new one, which is printed")
    parser.add_argument("--first", type=int, default=0, help="number of the first input, with --surface")
    parser.add_argument("--surface", action="append", choices=sorted(SHARES), help="only this one")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(argv)
    seed = given.seed or random.SystemRandom().randrange(1, 10**9)
    print(f"SEED={seed} COUNT={given.count}", flush=True)
    dealt = list(pieces(given.count, seed, given.surface or list(SHARES)))
    if given.first:
        dealt = [(name, seed, first + given.first, count) for name, seed, first, count in dealt]
    report, begun = Report(), time.monotonic()
    context = multiprocessing.get_context("spawn")
    with context.Pool(given.processes, maxtasksperchild=1) as pool:
        for done in pool.imap_unordered(run_piece, dealt):
            new = [found for key, found in done.findings.items() if key not in report.findings]
            report.add(done)
            for found in new:
                print(f"FOUND {found.surface}: {found.what}\n{found.repeat[:4000]}\n", flush=True)
    print(report)
    print(f"{sum(report.inputs.values()):,} inputs in {time.monotonic() - begun:.0f} s, SEED={seed}")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
