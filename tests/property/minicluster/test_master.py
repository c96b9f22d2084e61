"""What holds of the Mesos master after every step, whatever frameworks, agents and operators do."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.scheduler import scheduler_pb2 as scheduler
from minicluster.mesos.common import agent_link, resource_notation
from minicluster.mesos.common import resources as res
from minicluster.mesos.master.core import accept, agents, allocator, frameworks, operations, tasks
from minicluster.mesos.master.core.state import Agent, Framework, Master
from tests.unit.minicluster_mesos.clusters import (
    a_task,
    launch,
    new_cluster,
    register,
    subscribe,
    sums_are_right,
)

AMOUNTS = st.sampled_from(
    ["cpus:1;mem:64", "cpus:2;mem:900;ports:[1-3]", "cpus:9;mem:1", "ports:[2-2];mem:8"]
)
STATES = st.sampled_from([mesos.TASK_STARTING, mesos.TASK_RUNNING, mesos.TASK_FINISHED, mesos.TASK_FAILED])
WHOLE = "cpus:4;mem:1024;ports:[1-5]"


def check(cluster: Master) -> None:
    """Check that the tables of the master say the same of offers, tasks and resources."""
    sums_are_right(cluster)
    offers = {
        offer_id: offer for each in cluster.frameworks.values() for offer_id, offer in each.offers.items()
    }
    assert offers == cluster.offers
    of_agents = {
        offer_id: offer for each in cluster.agents.values() for offer_id, offer in each.offers.items()
    }
    assert of_agents == cluster.offers
    for agent in cluster.agents.values():
        assert agent.offerable or not agent.offers
        for (framework_id, task_id), task in agent.tasks.items():
            assert cluster.frameworks[framework_id].tasks[task_id] is task
    for framework in cluster.frameworks.values():
        assert framework.stream is not None or not framework.offers
        check_framework(cluster, framework)
    assert {each.stream: each.id for each in cluster.frameworks.values() if each.stream} == cluster.streams
    assert not cluster.agents.keys() & (cluster.unreachable.keys() | cluster.gone.keys())


def check_framework(cluster: Master, framework: Framework) -> None:
    """Check that what a framework has allocated is what its tasks use that have not ended."""
    allocated: Counter[str] = Counter()
    for task in framework.tasks.values():
        assert cluster.agents[task.agent_id].tasks[framework.id, task.id] is task
        if not task.released:
            allocated.update(res.scalars(task.resources))
    assert framework.allocated == allocated
    assert not framework.tasks.keys() & framework.unreachable.keys()


class MasterWalk(RuleBasedStateMachine):
    """Calls of two frameworks, links of three agents, and the time that passes."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = new_cluster()
        self.now = 0.0
        self.count = 0
        self.lost: dict[str, Agent] = {}
        """Agents whose link is cut, by id, as the agents know themselves."""
        self.running: dict[str, list[agent_link.AgentTask]] = {}
        """What runs on them."""

    @initialize()
    def begin(self) -> None:
        self.a_framework_subscribes(1, True)
        self.an_agent_registers()
        self.an_agent_registers()

    def _agent(self, which: int) -> Agent | None:
        connected = [each for each in self.cluster.agents.values() if each.connected]
        return connected[which % len(connected)] if connected else None

    def _framework(self, which: int) -> Framework | None:
        known = list(self.cluster.frameworks.values())
        return known[which % len(known)] if known else None

    @rule(which=st.integers(0, 1), checkpoint=st.booleans())
    def a_framework_subscribes(self, which: int, checkpoint: bool) -> None:
        if len(self.cluster.frameworks) < 2:
            self.count += 1
            roles = ("*", "web") if which else ("*",)
            subscribe(self.cluster, roles=roles, stream=f"s{self.count}", checkpoint=checkpoint, now=self.now)

    @rule(which=st.integers(0, 1))
    def a_framework_comes_back(self, which: int) -> None:
        framework = self._framework(which)
        if framework is not None:
            self.count += 1
            subscribe(self.cluster, stream=f"s{self.count}", framework_id=framework.id, now=self.now)

    @rule(which=st.integers(0, 1))
    def a_framework_is_cut_off(self, which: int) -> None:
        framework = self._framework(which)
        if framework is not None and framework.stream is not None:
            frameworks.disconnected(self.cluster, framework.stream, self.now)

    @rule(which=st.integers(0, 9))
    def a_framework_is_torn_down(self, which: int) -> None:
        framework = self._framework(which)
        if framework is not None and which < 2:
            frameworks.remove(self.cluster, framework, self.now)

    @rule()
    def an_agent_registers(self) -> None:
        if len(self.cluster.agents) < 3:
            self.count += 1
            register(self.cluster, WHOLE, port=self.count, now=self.now)

    @rule(which=st.integers(0, 2))
    def an_agent_is_cut_off(self, which: int) -> None:
        agent = self._agent(which)
        if agent is not None:
            self._remember(agent)
            agents.disconnected(self.cluster, agent, self.now)

    @precondition(lambda self: self.lost)
    @rule(which=st.integers(0, 2), kept=st.booleans())
    def an_agent_comes_back(self, which: int, kept: bool) -> None:
        """With its tasks, or without those that had ended or never reached it."""
        agent_id = sorted(self.lost)[which % len(self.lost)]
        before = self.lost.pop(agent_id)
        held = self.running.pop(agent_id) if kept else self.running.pop(agent_id)[:1]
        infos = tuple(
            self.cluster.frameworks[each].info
            for each in sorted({one.framework_id for one in held} & self.cluster.frameworks.keys())
        )
        info = mesos.AgentInfo()
        info.CopyFrom(before.info)
        if not info.resources:
            info.resources.extend(res.to_messages(resource_notation.parse_resources(WHOLE)))
        checkpointed = tuple(res.to_messages(res.checkpointed(before.total)))
        message = agent_link.Register(info, before.ip, before.version, infos, tuple(held), checkpointed)
        agents.register(self.cluster, message, self.now)

    @rule(which=st.integers(0, 2))
    def an_agent_is_unreachable(self, which: int) -> None:
        agent = self._agent(which)
        if agent is not None:
            self._remember(agent)
            agents.mark_unreachable(self.cluster, agent, "silent", self.now)

    @rule(which=st.integers(0, 9), gone=st.booleans())
    def an_agent_is_removed(self, which: int, gone: bool) -> None:
        agent = self._agent(which) if which < 3 else None
        if agent is not None and gone:
            agents.mark_gone(self.cluster, agent.id, self.now)
        elif agent is not None:
            agents.unregister(self.cluster, agent, self.now)

    @rule(which=st.integers(0, 2), drained=st.integers(0, 4))
    def an_agent_is_drained(self, which: int, drained: int) -> None:
        agent = self._agent(which)
        if agent is not None and not drained:
            agents.drain(self.cluster, agent, 1.0, self.now)
        elif agent is not None:
            agents.reactivate(agent)

    def _remember(self, agent: Agent) -> None:
        self.lost[agent.id] = agent
        self.running[agent.id] = [
            agent_link.AgentTask(
                framework_id, task.info, tuple(task.statuses), task.statuses.last if task.statuses else None
            )
            for (framework_id, _), task in agent.tasks.items()
        ]

    @precondition(lambda self: self.cluster.offers)
    @rule(which=st.integers(0, 9), amounts=AMOUNTS, twice=st.booleans(), refuse=st.sampled_from([0.0, 50.0]))
    def tasks_are_launched(self, which: int, amounts: str, twice: bool, refuse: float) -> None:
        offers = list(self.cluster.offers.values())
        if not offers:
            return
        offer = offers[which % len(offers)]
        framework = self.cluster.frameworks[offer.framework_id]
        message = mesos.Offer()
        message.id.value = offer.id
        self.count += 2
        first, second = self.count - 1, self.count - (1 if twice else 0)
        launched = [a_task(offer.agent_id, f"t{number}", amounts) for number in (first, second)]
        launch(self.cluster, framework, message, *launched, now=self.now, refuse=refuse)

    @rule(which=st.integers(0, 9), back=st.booleans())
    def resources_are_reserved(self, which: int, back: bool) -> None:
        offers = [each for each in self.cluster.offers.values() if each.role == "web"]
        if not offers:
            return
        offer = offers[which % len(offers)]
        framework = self.cluster.frameworks[offer.framework_id]
        call = scheduler.Call.Accept()
        call.offer_ids.add().value = offer.id
        resource = res.to_messages(resource_notation.parse_resources("cpus:1"))[0]
        resource.reservations.add(type=res.DYNAMIC, role="web")
        kind = mesos.Offer.Operation.UNRESERVE if back else mesos.Offer.Operation.RESERVE
        operation = call.operations.add(type=kind)
        (operation.unreserve if back else operation.reserve).resources.append(resource)
        accept.accept(self.cluster, framework, call, self.now)

    @rule(which=st.integers(0, 9), reserve=st.booleans())
    def an_operator_reserves(self, which: int, reserve: bool) -> None:
        agent = self._agent(which)
        if agent is None:
            return
        resource = res.to_messages(resource_notation.parse_resources("cpus:1"))[0]
        resource.reservations.add(type=res.DYNAMIC, role="web")
        operation = mesos.Offer.Operation(
            type=mesos.Offer.Operation.RESERVE if reserve else mesos.Offer.Operation.UNRESERVE
        )
        (operation.reserve if reserve else operation.unreserve).resources.append(resource)
        operations.by_operator(self.cluster, agent, operation)

    @rule(which=st.integers(0, 9), state=STATES, acknowledged=st.booleans())
    def a_task_is_reported(self, which: int, state: int, acknowledged: bool) -> None:
        live = [task for agent in self.cluster.agents.values() for task in agent.tasks.values()]
        live = [task for task in live if self.cluster.agents[task.agent_id].connected]
        if not live:
            return
        task = live[which % len(live)]
        agent, framework = self.cluster.agents[task.agent_id], self.cluster.frameworks[task.framework_id]
        self.count += 1
        status = mesos.TaskStatus(state=state, uuid=str(self.count).encode())  # type: ignore[arg-type]
        status.task_id.value, status.agent_id.value = task.id, agent.id
        tasks.status_update(self.cluster, agent, agent_link.Update(framework.id, status, status.state))
        if acknowledged:
            call = scheduler.Call.Acknowledge(uuid=status.uuid)
            call.task_id.value, call.agent_id.value = task.id, agent.id
            tasks.acknowledge(self.cluster, framework, call)

    @rule(seconds=st.sampled_from([1.0, 20.0, 700.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        for agent in [each for each in self.cluster.agents.values() if seconds > 100]:
            self._remember(agent)
        self.cluster.deadlines.run(self.now)
        self.lost = {key: each for key, each in self.lost.items() if not self._is_connected(key)}
        self.running = {key: each for key, each in self.running.items() if key in self.lost}
        allocator.allocate(self.cluster, self.now)

    def _is_connected(self, agent_id: str) -> bool:
        agent = self.cluster.agents.get(agent_id)
        return agent is not None and agent.connected

    @invariant()
    def all_tables_agree(self) -> None:
        check(self.cluster)


TestMaster = MasterWalk.TestCase
