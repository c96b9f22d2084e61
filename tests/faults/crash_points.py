"""Faults at an exact point of a daemon's work: between two steps, where a crash or a stop costs most.

`tests.faults.recording_daemon` lists the points. The daemon that reaches the point sends the signal, to
itself or to the leader of another role, so that no time passes in between.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.faults.fault import NOTHING, Fault, FaultContext
from tests.faults.testbed import ROWS, until
from tests.faults.triggers import Trigger
from tests.faults.workload import ENDLESS, NO_RETRIES

TRIGGER_SECONDS = 30.0
STOP_SECONDS = 30.0
TRIES = 5
HOLDS = (0.0, 0.3)
"""Seconds for which who survives the signal is held at the point: it goes on at once, or its stop begins
while the step is under way."""

Work = Callable[[FaultContext, Callable[[str], None]], None]
"""Calls what it is given with the job that it is about to do something with, and does it."""


@dataclass(frozen=True, slots=True)
class AtPoint:
    """A signal that ends a leader, sent at one of some points of a piece of work; it is started again."""

    work: Work
    points: Sequence[tuple[str, str]]
    """The role that reaches it, and the point."""
    role: str = ""
    """Whose leader is ended; empty: who reaches the point."""
    number: signal.Signals = signal.SIGKILL
    needs: frozenset[str] = NOTHING
    long: bool = False

    def strike(self, at: FaultContext) -> None:
        reaches, point = at.random.choice(self.points)
        role = self.role or reaches
        name, before = at.testbed.leader(role), at.testbed.discovery.address(role)
        target = 0 if role == reaches else at.testbed.pid(name)
        self._wait_until_fired(at, reaches, point, Trigger("", target, self.number, at.random.choice(HOLDS)))
        takeover = at.testbed.takeover(role, before)
        until(lambda: at.testbed.ended(name), STOP_SECONDS, f"the end of {name}", 0.01)
        at.wait(0.2, 1.5)
        at.testbed.start(name)
        at.took_over(role, takeover.result())

    def _wait_until_fired(self, at: FaultContext, reaches: str, point: str, trigger: Trigger) -> None:
        """Work until the trigger has fired: a daemon that stores two steps at once passes over the first."""
        if not any(self._fires(at, reaches, point, trigger) for _ in range(TRIES)):
            raise TimeoutError(f"{reaches} was in no {point} of {TRIES} jobs")

    def _fires(self, at: FaultContext, reaches: str, point: str, trigger: Trigger) -> bool:
        """Whether it does in one job."""
        set_for: list[tuple[str, Path]] = []

        def begins(job_id: str) -> None:
            set_for.append((job_id, at.testbed.trigger(reaches, point, replace(trigger, job=job_id))))

        self.work(at, begins)
        [(job_id, file)] = set_for
        try:
            over = f"{reaches} in a {point} of job {job_id}"
            until(lambda: not file.exists() or at.workload.api.ended(job_id), TRIGGER_SECONDS, over, 0.02)
            file.unlink()
        except FileNotFoundError:
            return True
        finally:
            file.unlink(missing_ok=True)
        return False


def create(at: FaultContext, begins: Callable[[str], None]) -> None:
    """A job whose tasks are made in several steps."""
    at.workload.add("sleep 0.5", 3 * ROWS, begins)


def run(at: FaultContext, begins: Callable[[str], None]) -> None:
    """A job without retries, through all states."""
    at.workload.add("sleep 0.5", at.random.randint(3, 12), begins, at.random.choice(NO_RETRIES))


def kill(at: FaultContext, begins: Callable[[str], None]) -> None:
    """A job without retries, stopped while it runs."""
    job_id = at.workload.add(ENDLESS, 3, max_failures=at.random.choice(NO_RETRIES))
    until(lambda: at.workload.runs(job_id), TRIGGER_SECONDS, f"job {job_id} running")
    begins(job_id)
    at.workload.stop(job_id)


STATES: Mapping[str, tuple[Work, Sequence[str]]] = {
    "initialized": (run, ("write_all INITIALIZED",)),
    "pending": (run, ("write_all PENDING",)),
    "launched": (run, ("write_all LAUNCHED", "before LaunchTasks")),
    "launch-sent": (run, ("after LaunchTasks",)),
    "starting": (run, ("write_all STARTING",)),
    "running": (run, ("write_all RUNNING",)),
    "killing": (kill, ("write_all KILLING", "before KillTasks", "after KillTasks")),
}
"""The states that jobmgr stores, LAUNCHED before and after the call to hostmgr, with the points at which
jobmgr has just reached them."""
WAYS: Mapping[str, signal.Signals] = {"kill": signal.SIGKILL, "stop": signal.SIGTERM}


def at_state(state: str, role: str, number: signal.Signals) -> Fault:
    work, points = STATES[state]
    return AtPoint(work, [("jobmgr", point) for point in points], role, number)
