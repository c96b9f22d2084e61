"""Components of jobmgr that an operator can halt."""

from __future__ import annotations

from enum import Enum


class Component(Enum):
    """A component, by the name that operators and the API use."""

    GOAL_STATE_ENGINE = "GoalStateEngine"
    """Driving jobs and tasks towards their goals: enqueueing, launching and killing."""
    READ = "Read"
    """Calls that only read."""
    WRITE = "Write"
    """Calls that change something."""
    KILL = "Kill"
    """Killing of tasks."""
    LAUNCH = "Launch"
    """Launching of tasks."""
