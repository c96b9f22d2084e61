"""Inputs by number from a seed, and what was found with them."""

from __future__ import annotations

import random
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
SLOW_SECONDS = 5.0
"""CPU seconds that one input may take."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that must not be. Findings of the same `what` are one."""

    surface: str
    what: str
    repeat: str
    """The seed, the number and the smallest input that shows it."""


@dataclass
class Report:
    """Counts, and the first finding of each kind."""

    inputs: Counter[str] = field(default_factory=Counter)
    """By surface."""
    answers: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    findings: dict[tuple[str, str], Finding] = field(default_factory=dict)
    times: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each was found."""

    def note(self, finding: Finding) -> None:
        key = finding.surface, finding.what
        self.times[key] += 1
        self.findings.setdefault(key, finding)

    def spend(self, surface: str, seconds: float) -> None:
        self.seconds[surface] = self.seconds.get(surface, 0.0) + seconds

    def add(self, other: Report) -> None:
        for mine, its in ((self.inputs, other.inputs), (self.answers, other.answers)):
            mine.update(its)
        for surface, seconds in other.seconds.items():
            self.spend(surface, seconds)
        self.times.update(other.times)
        for key, finding in other.findings.items():
            self.findings.setdefault(key, finding)

    def __str__(self) -> str:
        lines = [
            f"{surface}: {count:,} inputs in {self.seconds[surface]:.0f} s"
            for surface, count in sorted(self.inputs.items())
        ]
        lines += [f"  {answer}: {count:,}" for answer, count in sorted(self.answers.items())]
        for key, found in self.findings.items():
            lines += ["", f"FOUND {self.times[key]} times: {found.surface}: {found.what}", found.repeat]
        return "\n".join(lines)


def rng_of(surface: str, seed: int, number: int) -> random.Random:
    """Return the source of an input's choices."""
    return random.Random(f"{surface} {seed} {number}")


def where(error: BaseException) -> str:
    """Return an exception's type, and the place in this repository that it came from."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _ours(frame.filename)]
    place = f" at {Path(frames[-1].filename).relative_to(ROOT)}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"


def _ours(name: str) -> bool:
    path = Path(name)
    return path.is_relative_to(ROOT) and ".venv" not in path.parts and "tests" not in path.parts[-4:]


Check = Callable[[random.Random], tuple[str, Callable[[], str]]]
"""Makes an input: how to repeat it, and what gives it to the program and tells what became of it.
The function lets no exception out but a defect."""


def run_plain(surface: str, make: Check, seed: int, first: int, count: int) -> Report:
    """Try inputs, one after the other."""
    report, begun = Report(), time.monotonic()
    for number in range(first, first + count):
        repeat, attempt = make(rng_of(surface, seed, number))
        cpu, what = time.process_time(), ""
        try:
            report.answers[f"{surface} {attempt()}"] += 1
        except Exception as error:  # noqa: BLE001 - what it is for
            what = where(error) + f" {str(error)[:100]!r}" * isinstance(error, AssertionError)
        if time.process_time() - cpu > SLOW_SECONDS:
            what = what or f"took {time.process_time() - cpu:.1f} s of CPU"
        if what:
            report.note(Finding(surface, what, f"SEED={seed} input {number}: {repeat}"))
    report.inputs[surface] += count
    report.spend(surface, time.monotonic() - begun)
    return report
