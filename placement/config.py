"""Settings of a placement engine."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from peloton.config.plugins import DEFAULT, policy, registered
from peloton.config.settings import DaemonSettings
from peloton.config.sources import Variable
from peloton.config.tasktypes import PlacedTaskTypes
from peloton.model.states import TaskType
from placement.core import batch, daemon, service
from placement.core.giving_up import Rules
from placement.core.strategy import Scored, Strategy

HOST_SCORERS = "peloton.host_scorers"
"""Entry points that are scorers of hosts."""
STRATEGIES = "peloton.placement_strategies"
"""Entry points that make strategies: which gangs belong together, and how they are placed."""


class PlacementSettings(DaemonSettings):
    """Settings of a placement engine."""

    task_type: Annotated[PlacedTaskTypes, Variable("TASK_TYPE")] = ("batch",)
    """Which tasks this process places: one type, or several in a list or with commas between. In any case of
    letters."""
    use_host_pools: Annotated[bool, Variable("USE_HOST_POOLS")] = True
    """Whether tasks run on hosts of the host pool for their kind only, where `enable_host_pool` of hostmgr is
    true; false while pools are being filled. The same for all engines of a task type."""
    dequeue_limit: Annotated[int, Variable("TASK_DEQUEUE_LIMIT")] = Field(1000, ge=1, le=100_000)
    """Gangs taken at once."""
    dequeue_wait: float = Field(10.0, ge=0.0, le=60.0)
    """Seconds that resmgr may hold a call open while there is nothing to place."""
    max_waiting: int = Field(4000, ge=1)
    """Gangs taken and not yet settled; no more are taken while there are as many."""
    max_hosts: int = Field(1000, ge=1)
    """Hosts claimed with one call."""
    longest: float = Field(0.0, ge=0.0)
    """Seconds that an engine tries to place a gang; 0: 240 for batch and daemon, 60 for stateless. Less than
    a claim lasts in hostmgr."""
    patience: float = Field(2.0, ge=0.0)
    """Seconds that a gang waits for hosts which fit but are just being used, before it goes back."""
    desired_host_patience: float = Field(100.0, ge=0.0)
    """Seconds that a task which returns to its host waits for it, before it is placed elsewhere."""
    scorer: Annotated[str, AfterValidator(registered(HOST_SCORERS))] = DEFAULT
    """By which score hosts are chosen among those that fit: `default`, or the name of an entry point of
    `peloton.host_scorers` (docs/policies.md)."""

    strategy: Annotated[str, AfterValidator(registered(STRATEGIES))] = DEFAULT
    """How gangs are grouped and placed: `default`, or the name of an entry point of
    `peloton.placement_strategies` (docs/policies.md)."""

    @property
    def types(self) -> tuple[TaskType, ...]:
        """The task types that this process places."""
        return tuple(TaskType[name.upper()] for name in self.task_type)

    def rules(self, type_: TaskType) -> Rules:
        """Return how an engine places tasks of a type."""
        made = policy(STRATEGIES, self.strategy) or own_strategy
        strategy, score = made(type_, self.longest), policy(HOST_SCORERS, self.scorer)
        return Rules(
            strategy if score is None else Scored(strategy, score),
            self.max_hosts,
            self.patience,
            self.desired_host_patience,
        )


def own_strategy(type_: TaskType, longest: float) -> Strategy:
    """Return Peloton's own strategy for a task type.

    `longest`: seconds that a gang is tried; 0: the type's own.
    """
    if type_ is TaskType.BATCH:
        return batch.Batch(longest=longest or batch.LONGEST)
    if type_ is TaskType.DAEMON:
        return daemon.OnePerHost(longest=longest or daemon.LONGEST)
    return service.Service(type_, longest or service.LONGEST)
