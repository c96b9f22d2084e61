"""The ports of a placement, which come as one flat list, dealt to its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peloton.model.ids import Run
from peloton.model.job import JobSpec
from peloton.model.task import TaskRuntime


def ports_needed(run: Run, task: TaskRuntime | None, specs: Mapping[int, JobSpec]) -> int | None:
    """Return the number of dynamic ports of a run; None where it is unknown.

    `task` is the instance as it is now, `specs` are the versions in use. The version of a run that is not the
    current one, or whose instance was removed long ago, is unknown: its ports are known where all versions
    have the same number of them.
    """
    if task is not None and task.run == run.run and task.config_version in specs:
        return specs[task.config_version].task(run.instance).dynamic_ports
    needs = {spec.task(run.instance).dynamic_ports for spec in specs.values()}
    return needs.pop() if len(needs) == 1 else None


def shares(ports: Sequence[int], needs: Sequence[int | None]) -> list[tuple[int, ...] | None]:
    """Return the ports of each run, in order.

    `needs` has each run's number of ports; one that is unknown gets what the others leave. Where the ports
    cannot be told apart, a run that needs some gets None.
    """
    if not ports and not any(needs):
        return [()] * len(needs)
    unknown = needs.count(None)
    rest = len(ports) - sum(need or 0 for need in needs)
    if rest and (rest < 0 or unknown != 1):
        return [None if need else () for need in needs]
    result: list[tuple[int, ...] | None] = []
    at = 0
    for need in needs:
        end = at + (need if need is not None else rest if unknown == 1 else 0)
        result.append(tuple(ports[at:end]))
        at = end
    return result
