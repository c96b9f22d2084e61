"""Settings of a placement engine."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from peloton.config.settings import DaemonSettings
from peloton.config.sources import Variable
from peloton.model.states import PlacedTaskType, TaskType


class PlacementSettings(DaemonSettings):
    """Settings of a placement engine."""

    task_type: Annotated[PlacedTaskType, Variable("TASK_TYPE")] = "batch"
    """Which tasks this engine places. In any case of letters."""
    dequeue_limit: Annotated[int, Variable("TASK_DEQUEUE_LIMIT")] = Field(1000, ge=1, le=100_000)
    """Gangs taken at once."""
    dequeue_wait: float = Field(5.0, ge=0.0, le=60.0)
    """Seconds that resmgr may hold a call open while there is nothing to place."""
    max_waiting: int = Field(4000, ge=1)
    """Gangs taken and not yet settled; no more are taken while there are as many."""
    max_hosts: int = Field(1000, ge=1)
    """Hosts claimed with one call."""
    longest: float = Field(0.0, ge=0.0)
    """Seconds that an engine tries to place a gang; 0: 240 for batch, 60 for other types. Less than a claim
    lasts in hostmgr."""
    patience: float = Field(2.0, ge=0.0)
    """Seconds that a gang waits for hosts which fit but are just being used, before it goes back."""
    desired_host_patience: float = Field(100.0, ge=0.0)
    """Seconds that a task which returns to its host waits for it, before it is placed elsewhere."""

    @field_validator("task_type", mode="before")
    @classmethod
    def _in_lower_case(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @property
    def type(self) -> TaskType:
        """The task type that this engine places."""
        return TaskType[self.task_type.upper()]
