"""What the resource manager sees that is wrong with tasks, as texts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from peloton.model.amounts import elapsed
from peloton.model.plural import plural
from peloton.model.problems import Problem
from peloton.model.states import TaskState
from resmgr.core.monitoring.stuck import Stuck, StuckSearch
from resmgr.drivers.loop import Driver

REMEDIES: Mapping[TaskState, str] = {
    TaskState.RESERVED: "`peloton job why` tells which host is kept, and who uses it",
    TaskState.PLACED: "see whether a job manager leads, and its log",
    TaskState.LAUNCHING: "see the job manager's log, and whether a host manager leads",
    TaskState.LAUNCHED: "see the agent of its host, and the Mesos master",
    TaskState.STARTING: "see the log of the task and of the agent: images may take long to fetch",
    TaskState.PREEMPTING: "see what the task does when it is told to end, or stop it",
}


async def stuck_problems(driver: Driver) -> list[Problem]:
    """Return the states in which tasks stay for longer than usual."""
    search = StuckSearch(driver.scheduler, driver.now())
    for _ in search.steps():
        await asyncio.sleep(0)  # others are served between two steps
    return [_problem(each) for each in search.found()]


def _problem(stuck: Stuck) -> Problem:
    task, state = stuck.oldest, stuck.state.name
    link = f"/jobs/{task.job.id}/instances/{task.instance}"
    where = f" on {task.host}" if task.host else ""
    text = f"{task.job.id}-{task.instance} has been {state}{where} for {elapsed(stuck.seconds)}"
    if stuck.tasks > 1:
        text = f"{plural(stuck.tasks, 'task')} stay {state} for longer than usual, the longest: {text}"
    return Problem("warn", text, link, REMEDIES[stuck.state])
