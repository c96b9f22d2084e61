"""HostManagerService v1alpha, and the queries of hosts by state."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from hostmgr.core.state.host_filter import Result
from hostmgr.services.leases import RESULTS
from mesos.v1 import mesos_pb2
from peloton.api.v0.host import host_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.model.resources import Resources
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.v1alpha import hostmgr_pb2
from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2 as pb
from tests.unit.hostmgr.hosts import agent, offer
from tests.unit.hostmgr.served import Served, refused, serving
from tests.unit.hostmgr.test_manager import JOB

INVALID, FAILED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION
RUN = f"{JOB}-0-1"


def pod_id(value: str = RUN) -> peloton_pb2.PodID:
    return peloton_pb2.PodID(value=value)


def filter_(cpu: float = 0, **fields: Any) -> pb.AcquireHostsRequest:
    need = hostmgr_pb2.ResourceConstraint(minimum=pod_pb2.ResourceSpec(cpu_limit=cpu))
    return pb.AcquireHostsRequest(filter=hostmgr_pb2.HostFilter(resource_constraint=need, **fields))


def launch(lease: str, *pods: str, hostname: str = "host0", cpu: float = 1) -> pb.LaunchPodsRequest:
    request = pb.LaunchPodsRequest(lease_id=hostmgr_pb2.LeaseID(value=lease), hostname=hostname)
    for each in pods:
        pod = request.pods.add(pod_id=pod_id(each))
        container = pod.spec.containers.add(name="main")
        container.resource.cpu_limit = cpu
        container.entrypoint.value = "/bin/true"
    return request


async def leased(it: Served) -> str:
    (lease,) = (await it.v1alpha.AcquireHosts(filter_())).hosts
    return str(lease.lease_id.value)


def test_each_result_has_a_name_in_v1alpha() -> None:
    assert set(RESULTS) == set(Result)


async def test_hosts_are_leased_with_what_they_have_and_the_others_are_counted() -> None:
    async with serving() as it:
        it.list_agents(*(agent(host, [("rack", "a")]) for host in range(4)), agent(4, cpu=1))
        it.put(*(offer(host, host) for host in range(3)), offer(4, 4, cpu=1))
        answer = await it.v1alpha.AcquireHosts(filter_(cpu=2, max_hosts=1))
        (lease,) = answer.hosts
        assert it.manager.hosts.claims.get(lease.lease_id.value) is not None
        assert lease.host_summary.hostname == "host0" and lease.host_summary.resources.cpu == 4
        assert dict(answer.filter_result_counts) == {
            "HOST_FILTER_MATCH": 1,
            "HOST_FILTER_MISMATCH_MAX_HOST_LIMIT": 2,
            "HOST_FILTER_INSUFFICIENT_RESOURCES": 2,
        }
        again = await it.v1alpha.AcquireHosts(filter_(cpu=2))
        assert {each.host_summary.hostname for each in again.hosts} == {"host1", "host2"}
        assert again.filter_result_counts["HOST_FILTER_MISMATCH_STATUS"] == 1


async def test_a_constraint_and_a_hint_choose_hosts() -> None:
    async with serving() as it:
        it.list_agents(*(agent(host, [("rack", "ab"[host > 0])]) for host in range(3)))
        it.put(*(offer(host, host) for host in range(3)))
        rack = pod_pb2.LabelConstraint(
            kind=pod_pb2.LabelConstraint.LABEL_CONSTRAINT_KIND_HOST,
            condition=pod_pb2.LabelConstraint.LABEL_CONSTRAINT_CONDITION_EQUAL,
            label=peloton_pb2.Label(key="rack", value="b"),
            requirement=1,
        )
        constraint = pod_pb2.Constraint(type=pod_pb2.Constraint.CONSTRAINT_TYPE_LABEL, label_constraint=rack)
        request = filter_(scheduling_constraint=constraint, max_hosts=1)
        request.filter.hint.host_hint.add(hostname="host2", pod_id=pod_id())
        (lease,) = (await it.v1alpha.AcquireHosts(request)).hosts
        assert lease.host_summary.hostname == "host2"


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (filter_(cpu=-1), "filter.resource_constraint.minimum.cpu_limit: -1.0 is not a number from 0"),
        (
            filter_(scheduling_constraint=pod_pb2.Constraint()),
            "filter.scheduling_constraint.type: 0 is not CONSTRAINT_TYPE_LABEL (1)",
        ),
    ],
)
async def test_a_wrong_filter_is_invalid(request_: pb.AcquireHostsRequest, text: str) -> None:
    async with serving() as it:
        with refused(INVALID, text):
            await it.v1alpha.AcquireHosts(request_)


async def test_leases_end_once_and_only_with_their_host() -> None:
    async with serving() as it:
        it.put(offer(0, 0))
        request = pb.TerminateLeasesRequest()
        with refused(INVALID, "leases: '[]' is not at least one lease"):
            await it.v1alpha.TerminateLeases(request)
        pair = request.leases.add(hostname="host1", lease_id=hostmgr_pb2.LeaseID(value=await leased(it)))
        with refused(INVALID, "leases[0].hostname: 'host1' is not host0, the host of this lease"):
            await it.v1alpha.TerminateLeases(request)
        assert not (await it.v1alpha.AcquireHosts(filter_())).hosts
        pair.hostname = "host0"
        for _ in range(2):
            await it.v1alpha.TerminateLeases(request)
        assert await leased(it)


async def test_pods_are_launched_once() -> None:
    async with serving() as it:
        it.offer(1)
        request = launch(await leased(it), RUN, f"{JOB}-1-1")
        for _ in range(2):
            await it.v1alpha.LaunchPods(request)
        (call,) = [each for each in it.driver.calls if each.HasField("accept")]
        (operation,) = call.accept.operations
        assert [task.task_id.value for task in operation.launch.task_infos] == [RUN, f"{JOB}-1-1"]
        assert operation.launch.task_infos[0].command.value == "/bin/true"
        with refused(FAILED, "invalid offers: host offer"):
            await it.v1alpha.LaunchPods(launch(request.lease_id.value, f"{JOB}-2-1"))


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        ({"hostname": "host1"}, FAILED, "is of host0 (agent S0), not of host1"),
        ({"cpu": 5}, FAILED, "needs 5 cores, and the host's offers have 4 cores left"),
        ({"lease": "other"}, FAILED, "invalid offers: no claim other on host0"),
        ({"pods": ()}, INVALID, "pods: '[]' is not at least one pod"),
        ({"pods": ("x",)}, INVALID, "pods[0].pod_id.value: 'x' is not <job UUID>-<instance>-<run>"),
        ({"pods": (RUN, RUN)}, INVALID, "is not a run that is given once"),
    ],
)
async def test_wrong_launches_are_refused(change: dict[str, Any], code: grpc.StatusCode, text: str) -> None:
    async with serving() as it:
        it.offer(1)
        lease = await leased(it)
        pods = change.pop("pods", (RUN,))
        with refused(code, text):
            await it.v1alpha.LaunchPods(launch(change.pop("lease", lease), *pods, **change))
        assert "ACCEPT" not in it.types()


async def test_a_pod_with_a_persistent_volume_is_not_launched_without_it() -> None:
    async with serving() as it:
        it.offer(1)
        request = launch(await leased(it), RUN)
        request.pods[0].spec.volume.container_path = "data"
        with refused(INVALID, "pods[0].spec.volume: 'data' is not launched here"):
            await it.v1alpha.LaunchPods(request)


async def test_nothing_is_launched_without_a_connection() -> None:
    async with serving() as it:
        it.offer(1)
        lease = await leased(it)
        it.driver.ready = False
        with refused(grpc.StatusCode.UNAVAILABLE, "not subscribed with the Mesos master"):
            await it.v1alpha.LaunchPods(launch(lease, RUN))
        it.driver.ready = True
        await it.v1alpha.LaunchPods(launch(lease, RUN))


async def test_kills() -> None:
    async with serving() as it:
        for _ in range(2):
            await it.v1alpha.KillPods(pb.KillPodsRequest(pod_ids=[pod_id()]))
        assert it.types()[-2:] == ["KILL", "KILL"] and it.located == [RUN, RUN]
        with refused(INVALID, "pod_ids: '[]' is not at least one run"):
            await it.v1alpha.KillPods(pb.KillPodsRequest())
        with refused(INVALID, "pod_ids[1].value: 'x' is not <job UUID>"):
            await it.v1alpha.KillPods(pb.KillPodsRequest(pod_ids=[pod_id(), pod_id("x")]))
        await it.v0.DisableKillTasks(hostsvc_pb2.DisableKillTasksRequest())
        with refused(FAILED, "killing tasks is disabled; a restart of hostmgr enables it"):
            await it.v1alpha.KillPods(pb.KillPodsRequest(pod_ids=[pod_id()]))
        assert it.types().count("KILL") == 2


async def test_a_host_is_held_for_the_next_run_of_a_killed_pod() -> None:
    async with serving() as it:
        it.offer(1)
        request = pb.KillAndHoldPodsRequest()
        with refused(INVALID, "entries: '[]' is not at least one run with the host to hold"):
            await it.v1alpha.KillAndHoldPods(request)
        entry = request.entries.add(pod_id=pod_id())
        with refused(INVALID, "entries[0].hostToHold: '' is not the name of a host"):
            await it.v1alpha.KillAndHoldPods(request)
        entry.hostToHold = "host0"
        for _ in range(2):
            await it.v1alpha.KillAndHoldPods(request)
        assert not (await it.v1alpha.AcquireHosts(filter_())).hosts
        (summary,) = (await it.v1alpha.GetHostCache(pb.GetHostCacheRequest())).summaries
        assert summary.status == "held"
        hinted = filter_()
        hinted.filter.hint.host_hint.add(hostname="host0", pod_id=pod_id(f"{JOB}-0-2"))
        assert len((await it.v1alpha.AcquireHosts(hinted)).hosts) == 1


async def test_capacity_is_the_sum_of_the_agents_or_the_quota() -> None:
    async with serving() as it:
        request = pb.ClusterCapacityRequest()
        with refused(grpc.StatusCode.UNAVAILABLE, "map of agents has not been read yet"):
            await it.v1alpha.ClusterCapacity(request)
        it.list_agents(agent(0), agent(1), quota={"cpu": 5000})
        answer = await it.v1alpha.ClusterCapacity(request)
        assert {each.kind: each.capacity for each in answer.capacity} == {
            "cpu": 5, "memory": 2048, "disk": 2000, "gpu": 0,
        }  # fmt: skip
        assert [each.capacity for each in answer.allocation] == [0, 0, 0, 0]
        assert [each.capacity for each in answer.slack_capacity] == [0, 0, 0, 0]


async def test_the_events_of_the_ring_are_of_pods() -> None:
    async with serving() as it:
        it.put(offer(0, 0))
        assert not (await it.v1alpha.GetEvents(pb.GetEventsRequest())).events
        it.status(RUN, mesos_pb2.TASK_RUNNING, b"\x01\x02", healthy=True)
        it.status(
            RUN,
            mesos_pb2.TASK_FAILED,
            message="exit 1",
            reason=mesos_pb2.TaskStatus.REASON_COMMAND_EXECUTOR_FAILED,
        )
        running, failed = (await it.v1alpha.GetEvents(pb.GetEventsRequest())).events
        assert (running.offset, running.event_id) == (0, "0102")
        assert running.pod_event.pod_id.value == RUN
        assert running.pod_event.actual_state == "POD_STATE_RUNNING"
        assert running.pod_event.healthy == "HEALTH_STATE_HEALTHY"
        assert (running.pod_event.agent_id, running.pod_event.hostname) == ("S0", "host0")
        assert running.pod_event.timestamp == "1970-01-01T00:00:01.500000000Z"
        assert (failed.offset, failed.event_id) == (1, "s1-1")
        assert failed.pod_event.actual_state == "POD_STATE_FAILED"
        assert (failed.pod_event.message, failed.pod_event.reason) == ("exit 1", "COMMAND_EXECUTOR_FAILED")


async def test_the_cache_of_hosts() -> None:
    async with serving() as it:
        it.list_agents(agent(1), agent(0))
        it.put(offer(0, 0, cpu=3), offer(1, 1, cpu=4))
        await it.v1alpha.AcquireHosts(filter_(cpu=4))
        first, second = (await it.v1alpha.GetHostCache(pb.GetHostCacheRequest())).summaries
        assert (first.hostname, first.status) == ("host0", "ready")
        assert (second.hostname, second.status) == ("host1", "placing")
        assert [each.capacity for each in first.allocation] == [1, 0, 0, 0]
        assert {each.kind: each.capacity for each in first.capacity}["cpu"] == Resources.of(4).cpu / 1000


async def test_the_encoded_cache_of_hosts_is_the_message_of_what_they_have() -> None:
    async with serving() as it:
        it.list_agents(*(agent(host, cpu=host % 3 + 1) for host in reversed(range(20))))
        it.put(*(offer(host, host, cpu=0.5) for host in range(10)))
        table = it.manager.hosts.table
        answer = await it.v1alpha.GetHostCache(pb.GetHostCacheRequest())
        assert [each.hostname for each in answer.summaries] == sorted(table.hostnames)
        for each in answer.summaries:
            (row,) = table.rows_of(each.hostname)
            total, free = table.total(row)[0], table.free(row).normal
            taken = total - Resources(*map(min, total.values(), free.values()))
            assert {one.kind: one.capacity for one in each.capacity} == total.units()
            assert {one.kind: one.capacity for one in each.allocation} == taken.units()


async def test_runs_by_the_state_of_their_host() -> None:
    async with serving() as it:
        it.list_agents(agent(0), agent(1))
        it.status(RUN, mesos_pb2.TASK_RUNNING, b"one")
        it.status(f"{JOB}-1-1", mesos_pb2.TASK_RUNNING, b"two")
        up = hostsvc_pb2.GetTasksByHostStateRequest(host_state=host_pb2.HOST_STATE_UP)
        found = (await it.v0.GetTasksByHostState(up)).task_ids
        assert {each.value for each in found} == {RUN, f"{JOB}-1-1"}
        up.limit = 1
        assert len((await it.v0.GetTasksByHostState(up)).task_ids) == 1
        none = hostsvc_pb2.GetTasksByHostStateRequest(host_state=host_pb2.HOST_STATE_DOWN)
        assert not (await it.v0.GetTasksByHostState(none)).task_ids
        with refused(INVALID, "host_state: 0 is not one of HOST_STATE_UNKNOWN (1)"):
            await it.v0.GetTasksByHostState(hostsvc_pb2.GetTasksByHostStateRequest())
        up.timeout = 60_001
        with refused(INVALID, "timeout: 60001 is not at most 60000 milliseconds"):
            await it.v0.GetTasksByHostState(up)


async def test_runs_are_waited_for() -> None:
    async with serving() as it:
        it.list_agents(agent(0))
        call = it.v0.GetTasksByHostState(
            hostsvc_pb2.GetTasksByHostStateRequest(host_state=host_pb2.HOST_STATE_UP, timeout=60_000)
        )
        it.status(RUN, mesos_pb2.TASK_RUNNING, b"one")
        assert [each.value for each in (await call).task_ids] == [RUN]
