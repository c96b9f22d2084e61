"""Settings of jobmgr."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from jobmgr.core.task.actions import Limits
from jobmgr.drivers.retry import Bucket
from peloton.config.settings import AgentSettings, DaemonSettings, Settings
from peloton.config.sources import Variable
from storage.config import StorageSettings


class GoalStateSettings(Settings):
    """Settings of the goal-state engine, in seconds unless stated otherwise."""

    stuck_after: float = Field(180 * 60.0, gt=0)
    """A task that is LAUNCHED or STARTING for longer starts over; the executor of one that is KILLING for
    longer is shut down."""
    news_after: float = Field(300.0, gt=0)
    """Mesos is asked about a task that is LAUNCHED for longer without a status."""
    ask_after: float = Field(1.0, ge=0)
    """Delay before Mesos is asked about a launch whose outcome is unknown: the call may still arrive."""
    confirm_after: float = Field(60.0, gt=0)
    """Mesos is asked about STARTING and RUNNING tasks for which a new leader has no status by then."""
    kill_again_after: float = Field(10.0, gt=0)
    """First delay before a kill is repeated; it doubles up to `kill_again_most`."""
    kill_again_most: float = Field(600.0, gt=0)
    """Longest delay before a kill is repeated."""
    refusals_at_once: int = Field(3, ge=0)
    """Refused launches in a row before a task waits between its tries."""
    throttle_first: float = Field(30.0, gt=0)
    """Seconds before the next run of a service's instance after its first failure; doubles up to
    `throttle_most`."""
    throttle_most: float = Field(3600.0, gt=0)
    """Longest delay before the next run of a service's instance that failed."""
    rows_per_turn: int = Field(2000, ge=1, le=50_000)
    """Tasks that one cycle creates or evaluates."""

    def limits(self) -> Limits:
        """Return the limits for the core."""
        return Limits(**self.model_dump())


class RateSettings(Settings):
    """A rate limit."""

    rate: float = Field(0.0, ge=0)
    """Calls a second; 0: no limit."""
    burst: int = Field(100, ge=1)
    """Calls that may come at once."""

    def bucket(self) -> Bucket:
        """Return the rate limit for a driver."""
        return Bucket(self.rate, self.burst)


class JobmgrSettings(DaemonSettings):
    """Settings of jobmgr."""

    storage: StorageSettings
    """Where jobs, tasks and their history are kept."""
    goal_state: GoalStateSettings = GoalStateSettings()
    """Times after which tasks are reconciled, killed again and started over."""
    lanes: int = Field(4, ge=1, le=64)
    """Loops over which jobs are dealt by their ids. A job whose write cannot be made delays only its lane."""
    agents: AgentSettings = AgentSettings()
    """How Mesos agents are asked for the files of tasks."""
    task_kill: RateSettings = RateSettings()
    """How many tasks are killed a second."""
    executor_shutdown: RateSettings = RateSettings()
    """How many executors are shut down a second whose tasks could not be killed."""
    event_days: float = Field(90.0, gt=0, le=90)
    """Days that events of ended runs are kept. Cassandra drops all events after 90 by itself; to drop them
    earlier, all events there are have to be read once a day."""

    enable_secrets: Annotated[bool, Variable("ENABLE_SECRETS")] = False
    """Whether jobs may have secrets. Their contents are kept in the store as they are given."""
    workflows_kept: int = Field(10, ge=1)
    """Workflows of each job that are kept, with their events. The oldest ones are deleted when one begins."""

    shown_jobs: int = Field(0, ge=0, le=1000)
    """/metrics shows the tasks of so many active jobs job by job, the largest first; each job adds some ten
    series."""
    job_type: Annotated[str, Variable("JOB_TYPE")] = ""
    """Not to be set: every job manager runs jobs of all types."""

    @field_validator("job_type")
    @classmethod
    def _all_types(cls, value: str) -> str:
        if value:
            raise ValueError("every job manager runs jobs of all types: unset it")
        return value

    @property
    def expiry(self) -> float:
        """Seconds from one look for old events to the next."""
        return 3600.0 if self.storage.kind == "sqlite" else 86400.0
