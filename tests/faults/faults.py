"""The faults. Each occurs once, at random times, and has undone its effects when it ends."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.faults import crash_points
from tests.faults.crash_points import STATES, WAYS, AtPoint, at_state
from tests.faults.daemon_faults import in_daemon_growth
from tests.faults.fault import CASSANDRA, MASTERS, NOTHING, ZOOKEEPER, Fault, FaultContext
from tests.faults.maintenance_faults import InMaintenance, in_maintenance
from tests.faults.owner_faults import of_owners
from tests.faults.service_faults import in_services
from tests.faults.testbed import LEADERS, PING_SECONDS, PINGS, until
from tests.faults.workflow_faults import in_workflows
from tests.faults.workload import NO_RETRIES

BATCH, STATELESS = "placement0", "placement1"
"""Placement engines by a task type that they serve; the second one serves daemon tasks, too."""
AGENT = "mesos-agent{}"
AGENTS = 3
LAUNCH_SECONDS = 30.0
"""Until a new job's runs are launched."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """No fault."""

    needs: frozenset[str] = NOTHING
    long: bool = False

    def strike(self, at: FaultContext) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class KillLeader:
    """SIGKILL; a supervisor starts it again."""

    role: str
    needs: frozenset[str] = NOTHING
    long: bool = False

    def strike(self, at: FaultContext) -> None:
        name = at.testbed.leader(self.role)
        takeover = at.testbed.takeover(self.role)
        self.end(at, name)
        at.wait(0.5, 3)
        at.testbed.start(name)
        at.took_over(self.role, takeover.result())

    def end(self, at: FaultContext, name: str) -> None:
        at.testbed.kill(name)


@dataclass(frozen=True, slots=True)
class StopLeader(KillLeader):
    """SIGTERM: it ends in good order, and is started again."""

    def end(self, at: FaultContext, name: str) -> None:
        at.testbed.stop(name)


@dataclass(frozen=True, slots=True)
class KillPlacement:
    engine: str = BATCH
    needs: frozenset[str] = NOTHING
    long: bool = False

    def strike(self, at: FaultContext) -> None:
        at.testbed.kill(self.engine)
        at.wait(0.5, 3)
        at.testbed.start(self.engine)


@dataclass(frozen=True, slots=True)
class FreezePlacement:
    """SIGSTOP past the end of a session, and SIGCONT. It has nobody to stand in for it."""

    engine: str = BATCH
    needs: frozenset[str] = ZOOKEEPER
    long: bool = False

    def strike(self, at: FaultContext) -> None:
        _freeze(at, self.engine)


@dataclass(frozen=True, slots=True)
class FreezeLeader:
    """SIGSTOP past the end of its session; another leads; SIGCONT, and it believes that it still leads."""

    role: str
    needs: frozenset[str] = ZOOKEEPER
    long: bool = False

    def strike(self, at: FaultContext) -> None:
        _freeze(at, at.testbed.leader(self.role))


def _freeze(at: FaultContext, name: str) -> None:
    session = at.testbed.setup.session_seconds
    at.testbed.signal(name, signal.SIGSTOP)
    try:
        at.wait(1.5 * session, 2.5 * session)
    finally:
        at.testbed.signal(name, signal.SIGCONT)


@dataclass(frozen=True, slots=True)
class ZooKeeperDown:
    needs: frozenset[str] = ZOOKEEPER
    long: bool = True

    def strike(self, at: FaultContext) -> None:
        server = at.testbed.zookeeper
        assert server is not None
        server.kill()
        time.sleep(at.outage(30, 4))
        server.start()


@dataclass(frozen=True, slots=True)
class SessionsExpired:
    """The server is cut off for longer than a session: all sessions expire."""

    needs: frozenset[str] = ZOOKEEPER
    long: bool = False

    def strike(self, at: FaultContext) -> None:
        server = at.testbed.zookeeper
        assert server is not None
        server.freeze()
        try:
            at.wait(1.2 * at.testbed.setup.session_seconds, 2 * at.testbed.setup.session_seconds)
        finally:
            server.thaw()


@dataclass(frozen=True, slots=True)
class CassandraDown:
    needs: frozenset[str] = CASSANDRA
    long: bool = True

    def strike(self, at: FaultContext) -> None:
        server, proxy = at.testbed.cassandra, at.testbed.store
        assert server is not None and proxy is not None
        if at.quick:  # the server itself takes long to come back
            proxy.down = True
            proxy.cut()
            time.sleep(4)
            proxy.down = False
            return
        server.kill()
        time.sleep(30)
        server.start()


@dataclass(frozen=True, slots=True)
class CassandraSlow:
    """Every answer 500 ms late."""

    needs: frozenset[str] = CASSANDRA
    long: bool = False

    def strike(self, at: FaultContext) -> None:
        proxy = at.testbed.store
        assert proxy is not None
        proxy.delay = 0.25
        time.sleep(at.outage(15, 5))
        proxy.delay = 0.0


@dataclass(frozen=True, slots=True)
class CassandraUnknown:
    """Requests are carried out and never answered, a few points long."""

    needs: frozenset[str] = CASSANDRA
    long: bool = False

    def strike(self, at: FaultContext) -> None:
        proxy = at.testbed.store
        assert proxy is not None
        for _ in range(2 if at.quick else 4):
            proxy.silence()
            at.wait(0.1, 1)
            proxy.speak()
            at.wait(0.5, 2)


@dataclass(frozen=True, slots=True)
class KillMesosMaster:
    needs: frozenset[str] = NOTHING
    long: bool = False

    def strike(self, at: FaultContext) -> None:
        at.testbed.kill("mesos-master")
        at.wait(0.2, 3)
        at.testbed.start("mesos-master")


@dataclass(frozen=True, slots=True)
class MesosFailover:
    """SIGKILL of the Mesos master that leads; another takes over, and the killed one comes back behind it."""

    needs: frozenset[str] = MASTERS
    long: bool = False

    def strike(self, at: FaultContext) -> None:
        testbed = at.testbed
        name = testbed.leading_master()
        assert name is not None, "no Mesos master leads"
        testbed.kill(name)
        at.wait(0.2, 1.5 * testbed.setup.session_seconds)
        testbed.start(name)
        until(lambda: testbed.leading_master() not in (None, name), 60, "another Mesos master")


@dataclass(frozen=True, slots=True)
class AgentGone:
    """For good, with its tasks; another comes in its place."""

    launching: bool = False
    """Just while it launches runs."""
    needs: frozenset[str] = NOTHING
    long: bool = False

    def strike(self, at: FaultContext) -> None:
        name, since = _agent(at, self.launching), time.time()
        at.testbed.lose_agent(name)
        until(lambda: at.testbed.unreachable_since(since), 60, f"{name} given up")
        at.wait(0, 2)
        at.testbed.start(name)


@dataclass(frozen=True, slots=True)
class AgentBack:
    """Gone until it is given up, then back with all its tasks."""

    launching: bool = False
    """Just while it launches runs."""
    needs: frozenset[str] = NOTHING
    long: bool = False

    def strike(self, at: FaultContext) -> None:
        name, since = _agent(at, self.launching), time.time()
        at.testbed.kill(name)
        until(lambda: at.testbed.unreachable_since(since), 60, f"{name} given up")
        at.wait(0, 4)
        at.testbed.start(name)


@dataclass(frozen=True, slots=True)
class AgentRestarts:
    """Back before it is given up: its tasks never stopped counting."""

    launching: bool = False
    """Just while it launches runs."""
    needs: frozenset[str] = NOTHING
    long: bool = False

    def strike(self, at: FaultContext) -> None:
        name = _agent(at, self.launching)
        at.testbed.kill(name)
        at.wait(0.1, PING_SECONDS * (PINGS - 2))
        at.testbed.start(name)


def _agent(at: FaultContext, launching: bool) -> str:
    """Name of an agent: any, or one that launches a run which has not started."""
    if not launching:
        return AGENT.format(at.random.randrange(AGENTS))
    since = time.time()
    job_id = at.workload.add("sleep 0.5", 6, max_failures=at.random.choice(NO_RETRIES))
    found: list[str] = []

    def launches() -> bool:
        found.extend(at.testbed.launching(job_id, since))
        return bool(found)

    until(launches, LAUNCH_SECONDS, f"a launch of job {job_id}", 0.02)
    return at.testbed.agent(found[0])


@dataclass(frozen=True, slots=True)
class UpdatesMangled:
    """Status updates on their way to hostmgr are lost, come twice, and come late."""

    needs: frozenset[str] = NOTHING
    long: bool = False

    def strike(self, at: FaultContext) -> None:
        chances = at.testbed.chances
        chances.lost, chances.twice, chances.late = 0.25, 0.25, 0.25
        time.sleep(at.outage(12, 5))
        chances.lost = chances.twice = chances.late = 0.0


@dataclass(frozen=True, slots=True)
class MesosCut:
    """The connections to Mesos break in the middle of a record, several times."""

    needs: frozenset[str] = NOTHING
    long: bool = False

    def strike(self, at: FaultContext) -> None:
        for _ in range(2 if at.quick else 4):
            at.testbed.mesos.cut_within_answer(at.random.randint(1, 100))
            at.wait(0.5, 2.5)


@dataclass(frozen=True, slots=True)
class InTurn:
    """One after the other, in any order."""

    faults: Sequence[Fault]
    long: bool = False
    most: int = 0
    """So many of them, drawn; 0: all."""

    @property
    def needs(self) -> frozenset[str]:
        return frozenset().union(*(each.needs for each in self.faults))

    def strike(self, at: FaultContext) -> None:
        for each in at.random.sample(self.faults, self.most or len(self.faults)):
            each.strike(at)


AT_STATES: Mapping[str, Fault] = {
    **{
        f"{way}-jobmgr-at-{state}": at_state(state, "jobmgr", number)
        for state in STATES
        for way, number in WAYS.items()
    },
    **{
        f"{way}-{role}-at-states": InTurn([at_state(state, role, number) for state in STATES], most=3)
        for role in ("resmgr", "hostmgr")
        for way, number in WAYS.items()
    },
}
"""Leaders killed and stopped as jobmgr reaches each state that it stores."""
_DAEMONS_END: Mapping[str, Fault] = {
    **{f"kill-{role}": KillLeader(role) for role in LEADERS},
    "kill-placement": KillPlacement(STATELESS),
    **{f"freeze-{role}": FreezeLeader(role) for role in LEADERS},
    "freeze-placement": FreezePlacement(STATELESS),
}
IN_WORKFLOWS: Mapping[str, Fault] = in_workflows(_DAEMONS_END)
"""Daemons killed and frozen in the middle of an update of a service, and of a roll back."""
IN_DAEMON_GROWTH: Mapping[str, Fault] = in_daemon_growth(_DAEMONS_END)
"""Daemons killed and frozen while a daemon job follows a new agent."""
IN_MAINTENANCE: Mapping[str, Fault] = in_maintenance({f"kill-{role}": KillLeader(role) for role in LEADERS})
"""Leaders killed in the maintenance of a host."""
IN_SERVICES: Mapping[str, Fault] = in_services(
    {
        **_DAEMONS_END,
        "agent-restarts": AgentRestarts(),
        "agent-gone": AgentGone(),
        "agent-back": AgentBack(),
        "drain": InMaintenance(Quiet()),
        "drain-kill-hostmgr": InMaintenance(KillLeader("hostmgr")),
    }
)
"""Daemons killed and frozen, agents ended and hosts drained while services go through everything at once."""
OF_OWNERS: Mapping[str, Fault] = of_owners(
    {f"kill-{role}": KillLeader(role) for role in ("resmgr", "hostmgr")}
)
"""Job managers that share the work are killed, frozen, and leave; other leaders die among them."""
FAULTS: Mapping[str, Fault] = {
    "kill-jobmgr": KillLeader("jobmgr"),
    "kill-resmgr": KillLeader("resmgr"),
    "kill-hostmgr": KillLeader("hostmgr"),
    "kill-placement": KillPlacement(),
    "cut-create": AtPoint(
        crash_points.create, (("jobmgr", "jobs.create"), ("jobmgr", "write_all INITIALIZED"))
    ),
    "cut-launch": AtPoint(
        crash_points.run,
        (("jobmgr", "write_all LAUNCHED"), ("hostmgr", "before launch"), ("hostmgr", "after launch")),
    ),
    "cut-kill": AtPoint(
        crash_points.kill,
        (("jobmgr", "write_all KILLING"), ("hostmgr", "before kill"), ("hostmgr", "after kill")),
    ),
    **AT_STATES,
    "stop-jobmgr": StopLeader("jobmgr"),
    "stop-resmgr": StopLeader("resmgr"),
    "stop-hostmgr": StopLeader("hostmgr"),
    "kill-mesos-master": KillMesosMaster(),
    "mesos-failover": MesosFailover(),
    "mesos-cut": MesosCut(),
    "updates-mangled": UpdatesMangled(),
    "agent-restarts": AgentRestarts(),
    "agent-gone": AgentGone(),
    "agent-back": AgentBack(),
    "agent-restarts-launching": AgentRestarts(launching=True),
    "agent-gone-launching": AgentGone(launching=True),
    "agent-back-launching": AgentBack(launching=True),
    "freeze-jobmgr": FreezeLeader("jobmgr"),
    "freeze-resmgr": FreezeLeader("resmgr"),
    "freeze-hostmgr": FreezeLeader("hostmgr"),
    **IN_WORKFLOWS,
    **IN_DAEMON_GROWTH,
    **IN_MAINTENANCE,
    **IN_SERVICES,
    **OF_OWNERS,
    "sessions-expired": SessionsExpired(),
    "zookeeper-down": ZooKeeperDown(),
    "cassandra-slow": CassandraSlow(),
    "cassandra-unknown": CassandraUnknown(),
    "cassandra-down": CassandraDown(),
}
