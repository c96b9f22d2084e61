"""Runs seeds, shrinks a failing one, and tells the one line that repeats it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from simulator.faults.plan import Plan, draw
from simulator.faults.world import FaultWorld

Mutate = Callable[[FaultWorld], None]


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that fails."""

    plan: Plan
    error: str
    """The kind of the error, and its text."""
    history: tuple[str, ...] = ()
    mutation: str = ""

    @property
    def kind(self) -> str:
        """The first word of the error: shrinking keeps it."""
        return self.error.partition(":")[0]

    @property
    def line(self) -> str:
        """The command that repeats it."""
        plan = self.plan
        words = [f"python -m simulator.faults --seed {plan.seed}"]
        whole = draw(plan.seed)
        if plan.kept != whole.kept:
            words.append(f"--faults {_numbers(plan.kept)}")
        if plan.numbers != whole.numbers:
            words.append(f"--jobs {_numbers(plan.numbers)}")
        if plan.asked != whole.asked:
            words.append(f"--asks {_numbers(plan.asked)}")
        if self.mutation:
            words.append(f"--mutation {self.mutation}")
        return " ".join(words)


def _numbers(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers)) or "none"


def attempt(plan: Plan, mutate: Mutate | None = None, mutation: str = "") -> Failure | None:
    """Run a case; return how it fails, None where it does not."""
    world = FaultWorld(plan, mutate)
    try:
        world.run()
    except Exception as error:  # noqa: BLE001  whatever a core raises is a finding
        return Failure(plan, f"{type(error).__name__}: {error}", tuple(world.history), mutation)
    return None


def first_failure(
    seeds: Iterable[int], mutate: Mutate | None = None, mutation: str = "", asks: bool = True
) -> Failure | None:
    """Return the failure of the first seed that fails, with or without its asks; None where none does."""
    plans = (draw(seed) if asks else draw(seed).without_asks() for seed in seeds)
    found = (attempt(plan, mutate, mutation) for plan in plans)
    return next((failure for failure in found if failure is not None), None)


def shrink(failure: Failure, mutate: Mutate | None = None, tries: int = 200) -> Failure:
    """Return a failure of the same kind with as few parts as leaving out each in turn finds."""
    best, left = failure, tries
    smaller = True
    while smaller and left > 0:
        smaller = False
        plan = best.plan
        for part in _parts(plan):
            left -= 1
            found = attempt(plan.only(*part), mutate, best.mutation)
            if found is not None and found.kind == best.kind:
                best, smaller = found, True
                break
            if left <= 0:
                break
    return best


def _parts(plan: Plan) -> Iterable[tuple[Sequence[int], Sequence[int], Sequence[int]]]:
    """Iterate over smaller choices: half of the faults, then without each fault, ask and job."""
    faults, jobs, asks = plan.kept, plan.numbers, plan.asked
    half = len(faults) // 2
    if half:
        yield faults[:half], jobs, asks
        yield faults[half:], jobs, asks
    for number in faults:
        yield [each for each in faults if each != number], jobs, asks
    for number in asks:
        yield faults, jobs, [each for each in asks if each != number]
    for number in jobs if len(jobs) + len(asks) > 1 else ():
        yield faults, [each for each in jobs if each != number], asks
