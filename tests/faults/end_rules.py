"""Rules of how instances and jobs may end. Pure.

A job that did not fail by itself does not end FAILED, whatever died around it:

=======  ==============================================================================================
end      allowed where
=======  ==============================================================================================
FAILED   the command fails by itself, and agents reported as many failed runs as the job allows, at least 1
LOST     the job allows no failure (maxFailures 0), the run had started, and its agent is unreachable or dead
KILLED   the instance was stopped through the API
=======  ==============================================================================================

Nor does an instance run again after as many failures of its own as the job allows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.faults.history import Call, Event, History, Instance, Job, Run

Finding = tuple[str, str]
"""Rule and story."""
Number = tuple[str, int]
"""Job and instance."""
FAILED = {"TASK_FAILED", "TASK_ERROR"}


@dataclass(slots=True)
class _Seen:
    """What the master saw of runs."""

    events: Sequence[Event]
    failed: dict[Number, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Runs that failed by themselves, by their agent's updates: they had started."""
    acknowledged: dict[Number, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Failed runs reported to the framework before their agent was lost."""
    started: dict[Run, str] = field(default_factory=dict)
    """With their agents."""
    unreachable: set[Run] = field(default_factory=set)
    lost_agents: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        failures: set[tuple[Run, str]] = set()
        for event in self.events:
            run = event.run
            if event.kind in ("failure", "dead"):
                self.lost_agents.add(event.agent)
            if run is None:
                continue
            if event.kind == "update" and event.state not in FAILED:
                self.started[run] = event.agent
            elif event.kind == "update" and run in self.started:
                self.failed[_number(run)].add(run.number)
                failures.add((run, event.uuid))
            elif event.kind == "ack" and (run, event.uuid) in failures and run not in self.unreachable:
                self.acknowledged[_number(run)].add(run.number)
            elif event.kind == "sent" and event.state == "TASK_UNREACHABLE":
                self.unreachable.add(run)

    def last_sent(self, job: str, instance: int) -> str:
        sent = [
            f"run {event.run.number} {event.state}"
            for event in self.events
            if event.kind == "sent" and event.run is not None and _number(event.run) == (job, instance)
        ]
        return f"updates sent were {', '.join(sent[-3:])}" if sent else "no update was sent"


def invalid_ends(history: History) -> Iterator[Finding]:
    seen = _Seen(history.events)
    created = {call.job: call for call in history.calls if call.method == "create"}
    stopped = _stopped(history.calls)
    for job_id, job in history.end.jobs.items():
        yield from _job_state(job_id, job)
        call = created.get(job_id)
        if call is None:
            continue
        for number, instance in job.instances.items():
            if (wrong := _wrong(call, number, instance, seen, stopped)) is not None:
                rule, why = wrong
                sent = seen.last_sent(job_id, number)
                yield rule, f"{job_id}-{number} is {instance.state} in run {instance.run}: {why}; {sent}"


def _wrong(
    call: Call, number: int, instance: Instance, seen: _Seen, stopped: Mapping[str, set[int] | None]
) -> Finding | None:
    """Rule and reason."""
    allowed = max(call.max_failures, 1)
    of = (call.job, number)
    failures = len(seen.failed[of])
    if len(seen.acknowledged[of]) > allowed:
        return "ran on", f"maxFailures is {call.max_failures}, {failures} runs failed"
    if instance.state == "FAILED" and not call.fails:
        return "failed by no fault of its own", "its command does not fail"
    if instance.state == "FAILED" and failures < allowed:
        return "failed too early", f"maxFailures is {call.max_failures}, {failures} runs failed"
    if instance.state == "LOST":
        return _wrongly_lost(call, Run(call.job, number, instance.run), seen)
    if instance.state == "KILLED" and not _was_stopped(stopped, of):
        return "killed unasked", "nobody stopped it"
    return None


def _wrongly_lost(call: Call, run: Run, seen: _Seen) -> Finding | None:
    if call.max_failures:
        return "lost", f"maxFailures is {call.max_failures}"
    if run not in seen.started:
        return "lost", "the run had not started"
    if run not in seen.unreachable and seen.started[run] not in seen.lost_agents:
        return "lost", "its agent was there all the time"
    return None


def _job_state(job_id: str, job: Job) -> Iterator[Finding]:
    """A job's end follows from its instances' (behaviour 2.4)."""
    ends = {each.state for each in job.instances.values()}
    if not ends or not ends <= {"SUCCEEDED", "FAILED", "LOST", "KILLED"}:
        return
    expected = "KILLED" if "KILLED" in ends else "SUCCEEDED" if ends == {"SUCCEEDED"} else "FAILED"
    if job.state != expected:
        yield "job state", f"{job_id} is {job.state}, its instances are {', '.join(sorted(ends))}"


def _stopped(calls: Sequence[Call]) -> Mapping[str, set[int] | None]:
    """Instances that were stopped, by job; None: all of them."""
    found: dict[str, set[int] | None] = {}
    for call in calls:
        if call.method != "stop":
            continue
        before = found.get(call.job, set())
        whole = call.stopped is None or before is None
        found[call.job] = None if whole else {*(before or ()), *(call.stopped or ())}
    return found


def _was_stopped(stopped: Mapping[str, set[int] | None], of: Number) -> bool:
    job, number = of
    numbers = stopped.get(job, set())
    return numbers is None or number in numbers


def _number(run: Run) -> Number:
    return run.job, run.instance
