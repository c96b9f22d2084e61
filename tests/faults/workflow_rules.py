"""Rules of services and their workflows. Pure.

A workflow ends in the state that its spec leads to, with every instance up on the config that it leads to.
Until then, and whatever leader dies or freezes, no more instances are down at a time than its batch and the
failures that it tolerates. An instance is up while one of its runs is, from TASK_RUNNING to its end by the
agent's clock; a run that fails by itself has never been up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tests.faults.history import OVER, Event, Run, Workflow

Finding = tuple[str, str]
"""Rule and story."""
FOREVER = float("inf")


def broken_workflows(workflows: Sequence[Workflow], events: Sequence[Event]) -> Iterator[Finding]:
    for workflow in workflows:
        of = [event for event in events if event.run is not None and event.run.job == workflow.job]
        yield from _ends(workflow)
        yield from _pods(workflow)
        yield from _up_at_once(workflow, of)


def _ends(workflow: Workflow) -> Iterator[Finding]:
    if workflow.state != workflow.wanted_state:
        yield "workflow end", f"{workflow.job} is {workflow.state}, not {workflow.wanted_state}"


def _pods(workflow: Workflow) -> Iterator[Finding]:
    for number in sorted({*range(workflow.instances), *workflow.pods}):
        pod, name = workflow.pods.get(number), f"{workflow.job}-{number}"
        if pod is None:
            yield "instance missing", f"{name} is not there after the workflow"
        elif number >= workflow.instances:
            yield "instance too many", f"{name} is there, the service has {workflow.instances} instances"
        elif pod.state != "RUNNING":
            yield "instance down", f"{name} is {pod.state} after the workflow"
        elif (pod.version, pod.label) != (workflow.version, workflow.wanted_label):
            wanted = f"version {workflow.version} ({workflow.wanted_label})"
            yield "wrong config", f"{name} runs version {pod.version} ({pod.label}), not {wanted}"


def _up_at_once(workflow: Workflow, events: Sequence[Event]) -> Iterator[Finding]:
    """The worst moment only: a service that is down for long would be reported many times."""
    spans = up_spans(events)
    times = [workflow.began, *(end for several in spans.values() for _, end in several)]
    worst, down = max(
        ((at, _down(workflow, spans, at)) for at in times if workflow.began <= at <= workflow.until),
        key=lambda each: len(each[1]),
    )
    if len(down) > workflow.most_down:
        after = worst - workflow.began
        story = f"{workflow.job}: {len(down)} instances, {after:.2f} s after the workflow began: {down}"
        yield "too many down", f"{story}; at most {workflow.most_down}"


def _down(workflow: Workflow, spans: Mapping[int, Sequence[tuple[float, float]]], at: float) -> list[int]:
    return [
        number
        for number in range(workflow.instances)
        if not any(begin <= at < end for begin, end in spans.get(number, ()))
    ]


def up_spans(events: Sequence[Event]) -> Mapping[int, Sequence[tuple[float, float]]]:
    """Return from when to when runs of each instance were up, by the clock of the agents and by instance."""
    begin: dict[Run, float] = {}
    end: dict[Run, float] = {}
    failed: set[Run] = set()
    for event in events:
        if event.kind != "update" or event.run is None:
            continue
        if event.state in OVER:
            end[event.run] = min(event.when, end.get(event.run, FOREVER))
            failed |= {event.run} if event.state == "TASK_FAILED" else set()
        elif event.state == "TASK_RUNNING":
            begin[event.run] = min(event.when, begin.get(event.run, FOREVER))
    found: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for run, since in begin.items():
        if run not in failed:
            found[run.instance].append((since, end.get(run, FOREVER)))
    return found
