"""The settings that the core goes by, which stand as they are in a file of settings."""

from __future__ import annotations

from dataclasses import dataclass

from peloton.model.bounds import Batch, Count, NotNegative, Positive


@dataclass(frozen=True, slots=True)
class Limits:
    """Settings of the goal-state engine, in seconds unless stated otherwise."""

    stuck_after: Positive = 180 * 60.0
    """Seconds after which a task that is LAUNCHED or STARTING starts over, and the executor of one that is
    KILLING is shut down."""
    news_after: Positive = 300.0
    """Seconds after which Mesos is asked about a task that is LAUNCHED and has no status."""
    ask_after: NotNegative = 1.0
    """Seconds before Mesos is asked about a launch whose outcome is unknown: the call may still arrive."""
    confirm_after: Positive = 60.0
    """Seconds after which a new leader asks Mesos about STARTING and RUNNING tasks for which it has no
    status."""
    kill_again_after: Positive = 10.0
    """Seconds before a kill is repeated for the first time; doubled each time up to `kill_again_most`."""
    kill_again_most: Positive = 600.0
    """Most seconds before a kill is repeated."""
    refusals_at_once: Count = 3
    """Refused launches in a row before a task waits between its tries."""
    gather_seconds: NotNegative = 1.5
    """Seconds for which an elastic gang whose needed members are placed waits for extras before it starts;
    below the 2 s for which the launch of a host waits for runs of other lanes."""
    throttle_first: Positive = 30.0
    """Seconds before the next run of a service's instance after its first failure; doubles up to
    `throttle_most`."""
    throttle_most: Positive = 3600.0
    """Most seconds before the next run of a service's instance that failed."""
    rows_per_cycle: Batch = 2000
    """Tasks that one cycle creates or evaluates."""
