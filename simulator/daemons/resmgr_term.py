"""What the parts of the simulated resource manager share in one term."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from resmgr.core.preemption.decide import Rules
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.limits import Limits
from resmgr.core.state.policies import OWN, Policies
from simulator.world.kernel import Kernel, Life
from simulator.world.network import Caller
from simulator.world.universe import Universe

ROLE = "resmgr"


@dataclass(slots=True)
class ResmgrOptions:
    """Settings of the resource manager that the simulation knows. Times are in seconds."""

    limits: Limits = field(default_factory=Limits)
    rules: Rules = field(default_factory=Rules)
    policies: Policies = OWN
    admission_interval: float = 0.1
    admission_pause: float = 0.005
    entitlement_interval: float = 60.0
    preemption_period: float = 60.0
    preemption_limit: int = 10_000
    capacity_first: float = 1.0
    capacity_interval: float = 10.0
    audit_interval: float = 3600.0


class Term:
    """One term: its scheduler, and the way to the other daemons."""

    def __init__(self, universe: Universe, life: Life, number: int, options: ResmgrOptions) -> None:
        self.universe = universe
        self.kernel: Kernel = universe.kernel
        self.life = life
        self.number = number
        self.options = options
        self.began = 0.0
        """When it began."""
        self.recovered = False
        """Whether the stored waiting tasks are queued again."""
        self.scheduler = Scheduler(
            options.limits,
            f"reasons-{number}-0",
            options.rules,
            options.preemption_limit,
            options.policies,
        )
        self._caller = Caller(life, number)

    def call(
        self, role: str, method: str, args: tuple[Any, ...], done: Callable[[Any], None], wait: float = 0.0
    ) -> None:
        """Call the leader of a role, which may wait up to `wait` seconds for news."""
        self.universe.network.call(self._caller, role, method, args, done, 10.0 + wait)

    def after(self, seconds: float, work: Callable[..., None], *args: Any) -> None:
        """Have something done later in this term."""
        self.kernel.after(seconds, self.life, work, *args)
