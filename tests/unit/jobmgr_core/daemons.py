"""A daemon job in a core that is turned by hand, and the hosts that it follows."""

from __future__ import annotations

from dataclasses import dataclass, field

from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as ins
from peloton.api.v0.job import job_pb2
from peloton.model.host import HostMatch
from peloton.model.ids import Run
from peloton.model.job import JobSpec
from peloton.model.states import TaskState
from peloton.wire.job import job_spec
from tests.unit.jobmgr_core.services import Service, service_config
from tests.unit.jobmgr_core.specs import JOB


def daemon(version: int = 1, command: str = "watch") -> JobSpec:
    """A daemon job whose instances run a command."""
    wire = service_config(0, command)
    wire.type = job_pb2.DAEMON
    wire.ClearField("instanceCount")
    return job_spec(wire, version)


@dataclass
class DaemonJob(Service):
    """hostmgr reports the hosts when they are asked for, and when a test calls `follow`."""

    spec: JobSpec = field(default_factory=daemon)
    hosts: set[str] = field(default_factory=set)
    disconnected: set[str] = field(default_factory=set)
    complete: bool = True
    asked: int = 0
    """How often the hosts were asked for."""

    def follow(self) -> None:
        """Report the hosts as they are."""
        match = HostMatch(frozenset(self.hosts), frozenset(self.disconnected), self.complete)
        self.cycle(ev.HostsMatched(JOB, self.runtime.config_version, match))

    def join(self, *hosts: str) -> None:
        """Let hosts come."""
        self.hosts |= set(hosts)
        self.follow()

    def leave(self, *hosts: str, lost: bool = True) -> None:
        """Let hosts go, with their runs."""
        self.hosts -= set(hosts)
        for instance, task in self.tasks.items():
            if task.host in hosts and lost and any(key[0] == instance for key in self.alive):
                self.end(instance, TaskState.LOST)
        self.follow()

    def carry_out(self, instruction: ins.Instruction) -> None:
        if isinstance(instruction, ins.FollowHosts):
            self.asked += 1
            self.follow()
        else:
            super().carry_out(instruction)

    def place(self) -> None:
        """Place each run on its host, where that is there."""
        for instance, number in list(self.queued.items()):
            host, run = self.rows[instance].desired_host, Run(JOB, instance, number)
            if host in self.hosts:
                del self.queued[instance]
                self.cycle(ev.Placed([ev.Placement(host, f"agent of {host}", "offer", (), (run,))]))

    @property
    def on(self) -> dict[str, str]:
        """The state of the instance of each host."""
        return {task.desired_host: task.state.name for task in self.tasks.values()}

    @property
    def numbers(self) -> dict[str, int]:
        """The instance of each host."""
        return {task.desired_host: instance for instance, task in self.tasks.items()}
