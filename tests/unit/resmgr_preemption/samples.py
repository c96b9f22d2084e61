"""Samples of views, in whole units of cpu and memory."""

from __future__ import annotations

from collections.abc import Iterable

from peloton.model.ids import Run
from peloton.model.resources import Resources
from peloton.model.states import TaskState
from resmgr.core.preemption.decide import Memory, Rules, remember, steps
from resmgr.core.preemption.policy import PreemptionPolicy, Victim
from resmgr.core.preemption.view import Candidate, PoolView, View, Waiting
from resmgr.core.state.amounts import Vector
from resmgr.core.state.needs import Needs

JOB = "11111111-1111-1111-1111-111111111111"


def amounts(cpu: float = 0, memory: float = 0, gpu: float = 0) -> Vector:
    return Resources.of(cpu=cpu, memory=memory, gpu=gpu).values()


def task(
    number: int,
    cpu: float = 1,
    memory: float = 0,
    *,
    gpu: float = 0,
    gang: int | None = None,
    state: TaskState = TaskState.RUNNING,
    priority: int = 0,
    started: float = 0.0,
    preemptible: bool = True,
    revocable: bool = False,
) -> Candidate:
    return Candidate(
        Run(JOB, number, 1),
        number if gang is None else gang,
        amounts(cpu, memory, gpu),
        state,
        priority,
        started,
        preemptible,
        revocable,
    )


def waiting(
    number: int,
    cpu: float = 1,
    memory: float = 0,
    *,
    priority: int = 5,
    preemptible: bool = True,
    revocable: bool = False,
    controller: bool = False,
) -> Waiting:
    needs = Needs(
        Resources.of(cpu=cpu, memory=memory),
        priority=priority,
        preemptible=preemptible,
        revocable=revocable,
        controller=controller,
    )
    return Waiting(Run(JOB, number, 1), priority, needs.charge)


def numbers(victims: list[Victim]) -> list[int]:
    """Instances of all that is taken, in order."""
    return [run.instance for victim in victims for run in victim.runs]


def victims(policy: PreemptionPolicy, *pools: PoolView) -> list[Victim]:
    """Return what a policy takes of these pools, all steps at once."""
    return complete(policy.steps(View(pools), 0.0))


def decide(view: View, memory: Memory, rules: Rules, now: float) -> tuple[list[Victim], Memory]:
    """Return the victims of a prepared view, all steps at once, and the memory where all are taken."""
    found = complete(steps(view, rules, now))
    return found, remember(memory, rules, found, now)


def complete(found: Iterable[Victim | None]) -> list[Victim]:
    return [victim for victim in found if victim is not None]
