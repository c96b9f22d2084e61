"""Jobs that get no instances: those that wait for the ends of others, and those that only have a schedule."""

from __future__ import annotations

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.job.requests import stop_batch
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.events import DependencySeen, PauseAsked, ScheduleMoved
from jobmgr.core.state.job_states import ENDING_JOB_GOALS
from peloton.errors import Refused
from peloton.model.dependency import Dependency, Verdict, verdict
from peloton.model.schedule import ScheduleState, paused, resumed
from peloton.model.states import JobState


def on_dependency_seen(active: ActiveJobs, cycle: Cycle, event: DependencySeen) -> None:
    """Go on where the last job that is waited for has ended as wanted; stop where one never will."""
    change = active.change(cycle, event.job_id)
    if change is None or event.on not in change.unmet:
        return
    found = next((each for each in change.spec.depends_on if each.job_id == event.on), None)
    means = Verdict.MET if found is None else verdict(found.end, event.state)
    if means is Verdict.MET:
        change.unmet = tuple(each for each in change.unmet if each != event.on)
        active.create_rows(event.job_id)
    elif means is Verdict.NEVER and found is not None and change.waits:
        stop_batch(active, change, never(found, event.state))


def on_schedule_moved(active: ActiveJobs, cycle: Cycle, event: ScheduleMoved) -> Refused | None:
    """Take how far a schedule is.

    Refused where the job does not follow it any more, or where a pause has begun or ended since that was
    decided: times of the pause would get runs.
    """
    change = active.change(cycle, event.job_id)
    if change is None or change.spec.schedule is None or change.goal in ENDING_JOB_GOALS:
        return Refused(f"job {event.job_id} follows no schedule any more")
    now = _state(change)
    if event.state.paused != now.paused or event.state.seen < now.seen:
        return Refused(f"the schedule of job {event.job_id} was paused or resumed meanwhile")
    change.schedule = event.state
    return None


def on_pause_asked(active: ActiveJobs, cycle: Cycle, event: PauseAsked) -> Refused | None:
    """Pause a schedule, or let it go on. Refused where the job follows none."""
    change = active.change(cycle, event.job_id)
    if change is None or change.spec.schedule is None:
        return Refused(f"job {event.job_id} has no schedule")
    if change.goal in ENDING_JOB_GOALS:
        return Refused(f"the schedule of job {event.job_id} has ended: the job is stopped")
    move = paused if event.pause else resumed
    change.schedule = move(_state(change), event.at)
    return None


def _state(change: Change) -> ScheduleState:
    return change.schedule or change.job.runtime.schedule_state


def never(dependency: Dependency, state: JobState | None) -> str:
    """Say why a job is stopped that waits in vain; what stops a job is said as who stopped it."""
    became = "which was deleted before it was seen to succeed" if state is None else f"which is {state.name}"
    return f"its dependency on {dependency}, {became}"
