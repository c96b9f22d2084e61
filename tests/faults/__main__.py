"""`make faults`: every fault many times, each followed by the proof; resumes where it was broken off.

make faults ARGS="--only kill-jobmgr --times 2"
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from tests.faults.faults import AT_STATES, FAULTS
from tests.faults.rounds import WORK_SECONDS, WORK_SECONDS_QUICK, Result, play
from tests.faults.testbed import LEADERS, Setup, Testbed
from tests.servers.maven import Missing

TIMES, TIMES_AT_STATES, TIMES_LONG = 20, 10, 3
SHARING, SIMULATED_AGENTS = 3, 200
TIMES_HELP = f"runs of each (default {TIMES}; {TIMES_AT_STATES} at states, {TIMES_LONG} of the long ones)"
LAUNCH, LAUNCH_QUICK = "0.3-3", "0.1-1"
LAUNCH_HELP = f"how long an agent takes for a launch (default {LAUNCH}, with --quick {LAUNCH_QUICK})"
INTERRUPTED = 130
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(argv: list[str] | None = None) -> int:
    """Exit code 1 for a violation, 130 where it was broken off."""
    options = _parser().parse_args(argv)
    unknown = [each for each in options.only if not fnmatch.filter(FAULTS, each)]
    if unknown:
        print(f"no such fault: {', '.join(unknown)}; there are {', '.join(FAULTS)}", file=sys.stderr)
        return 2
    options.only = [name for name in FAULTS if any(fnmatch.fnmatch(name, each) for each in options.only)]
    options.dir.mkdir(parents=True, exist_ok=True)
    results = options.dir / "results.jsonl"
    if options.fresh:
        results.unlink(missing_ok=True)
    for number in STOPS:
        signal.signal(number, _interrupt)
    broken_off = False
    try:
        for setup, names in _by_setup(options).items():
            _play_all(setup, names, options, results)
    except Missing as missing:
        print(f"cannot go on: {missing}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        broken_off = True
    done = [each for each in _read(results) if not options.only or each.fault in options.only]
    _table(done)
    if broken_off:
        print("broken off; the same command goes on from here")
        return INTERRUPTED
    return 1 if any(each.violations for each in done) else 0


def _interrupt(number: int, frame: Any) -> None:
    """Later signals are ignored: they would leave processes behind that have to be found by hand."""
    for each in STOPS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    add = parser.add_argument
    add(
        "--only",
        nargs="+",
        default=[],
        metavar="FAULT",
        help=f"of {', '.join(FAULTS)}; * stands for any part",
    )
    add("--times", type=int, help=TIMES_HELP)
    add("--seed", type=int, default=1, help="of the first run; each further one takes the next")
    add("--quick", action="store_true", help="shortened outages")
    add("--membership", choices=("zookeeper", "local"), default="zookeeper")
    add(
        "--storage",
        choices=("sqlite", "cassandra"),
        default="sqlite",
        help="cassandra: for every fault but those of shared work",
    )
    add("--secure", action="store_true", help="with TLS, certificates of the daemons, and users")
    add("--launch-seconds", metavar="MIN-MAX", help=LAUNCH_HELP)
    add("--dir", type=Path, default=Path("build/faults"), help="results, and what failed runs left")
    add("--fresh", action="store_true", help="forget the results so far instead of going on from them")
    return parser


def _by_setup(options: argparse.Namespace) -> Mapping[Setup, list[str]]:
    """Faults by the cluster that they are to be played on."""
    found: dict[Setup, list[str]] = {}
    for name in options.only or FAULTS:
        needs = FAULTS[name].needs
        setup = Setup(
            zookeeper=options.membership == "zookeeper" or "zookeeper" in needs,
            cassandra=(options.storage == "cassandra" and "shared" not in needs) or "cassandra" in needs,
            session_seconds=2.0 if options.quick else 5.0,
            masters=2 if "masters" in needs else 1,
            launch_seconds=options.launch_seconds or (LAUNCH_QUICK if options.quick else LAUNCH),
            secure=options.secure,
            sharing=SHARING if "shared" in needs else 0,
            simulated=SIMULATED_AGENTS if "simulated" in needs else 0,
        )
        found.setdefault(setup, []).append(name)
    return found


def _play_all(setup: Setup, names: list[str], options: argparse.Namespace, results: Path) -> None:
    had = {(each.fault, each.seed) for each in _read(results)}
    todo = [
        (name, seed)
        for name in names
        for seed in range(options.seed, options.seed + _times(name, options.times))
        if (name, seed) not in had
    ]
    testbed: Testbed | None = None
    try:
        for name, seed in todo:
            if testbed is None:
                print(f"a cluster on {setup} …", flush=True)
                testbed = Testbed(options.dir / f"testbed-{time.time_ns()}", setup, seed)
                began = time.monotonic()
                testbed.up()
                print(f"up after {time.monotonic() - began:.0f} s", flush=True)
            seconds = WORK_SECONDS_QUICK if options.quick or name in AT_STATES else WORK_SECONDS
            result = play(testbed, name, FAULTS[name], seed, options.quick, seconds)
            with results.open("a") as file:
                file.write(json.dumps(asdict(result)) + "\n")
            print(_line(result), flush=True)
            if result.violations:  # what comes after must not suffer from it
                _keep(testbed, options.dir / "failed" / f"{name}-{seed}")
                _end(testbed)
                testbed = None
            if (name, seed) == [each for each in todo if each[0] == name][-1]:
                _table(each for each in _read(results) if each.fault == name)
    finally:
        if testbed is not None:
            _end(testbed)


def _end(testbed: Testbed) -> None:
    testbed.down()
    shutil.rmtree(testbed.folder, ignore_errors=True)


def _times(name: str, given: int | None) -> int:
    if given is not None:
        return given
    return TIMES_LONG if FAULTS[name].long else TIMES_AT_STATES if name in AT_STATES else TIMES


def _keep(testbed: Testbed, place: Path) -> None:
    """Keep logs and history for the analysis of a failure."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    shutil.copytree(testbed.cluster.layout.log, place / "log")
    shutil.copy(testbed.folder / "mesos.jsonl", place)


def _read(results: Path) -> list[Result]:
    lines = results.read_text().splitlines() if results.exists() else []
    return [Result(**json.loads(line)) for line in lines]


def _line(result: Result) -> str:
    gaps = ", ".join(f"{role} {gap:.1f}" for role, gap in result.without_service.items())
    more = f", unavoidable {len(result.unavoidable)}" if result.unavoidable else ""
    changed = [f"{role} {count}" for role, count in result.leaders.items() if count]
    more += f", new leaders: {', '.join(changed)}" if changed else ""
    took_over = [f"{role} {seconds:.2f} s" for role, seconds in result.takeovers.items()]
    more += f", another served after: {', '.join(took_over)}" if took_over else ""
    more += f", other owners' calls p99 {result.others:.3f} s" if result.others else ""
    more += "".join(f", {count} of them failed: {why}" for why, count in result.failed.items())
    more += f", ended by itself: {' '.join(result.deaths)}" if result.deaths else ""
    wrong = "".join(f"\n    {each}" for each in result.violations)
    count = len(result.violations)
    return (
        f"{result.fault} seed {result.seed}: violations {count}{more}, "
        f"s without service: {gaps}, "
        f"slowest call {result.slowest:.1f} s, took {result.seconds:.0f} s {list(result.phases)}{wrong}"
    )


def _table(results: Iterable[Result]) -> None:
    by_fault: dict[str, list[Result]] = {}
    for each in results:
        by_fault.setdefault(each.fault, []).append(each)
    roles = "".join(f"  {role + ' median worst':>20}" for role in LEADERS)
    print(f"\n{'':<26} {'':>27}{'seconds without service':>66}  another served")
    print(f"{'fault':<26} runs violations unavoidable{roles}    median worst")
    for name, several in by_fault.items():
        wrong = sum(len(each.violations) for each in several)
        unavoidable = sum(len(each.unavoidable) for each in several)
        line = f"{name:<26} {len(several):>4} {wrong:>10} {unavoidable:>11}"
        for role in LEADERS:
            gaps = [each.without_service[role] for each in several if role in each.without_service]
            line += f"  {median(gaps):>14.1f} {max(gaps):>5.1f}" if gaps else ""
        took_over = [seconds for each in several for seconds in each.takeovers.values()]
        print(line + (f"    {median(took_over):>6.2f} {max(took_over):>5.2f}" if took_over else ""))
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main())
