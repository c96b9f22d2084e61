"""Launches on several hosts in one call, as hostmgr serves it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import pytest

from hostmgr.core.claims.claim import InvalidOffers
from hostmgr.core.state.offers import Taken
from hostmgr.drivers.manager import HostManager
from hostmgr.mesos.taskinfo import TaskInfos, task_info
from hostmgr.services.launches import MOST_HOSTS, LaunchOnHosts
from mesos.v1 import mesos_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument, Unavailable
from peloton.model.task import Launch
from peloton.private.hostmgr.launching import launching_pb2 as pb
from peloton.wire.launch import LaunchConfig
from tests.unit.resmgr.shell import Context

JOB = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
OTHER = "1b4e28ba-2fa1-41d2-883f-0016d3cca428"
Kind = pb.Outcome


class Manager:
    """Launches, or raises what `failures` has for a host."""

    def __init__(self) -> None:
        self.launched: dict[str, list[Launch]] = {}
        self.failures: dict[str, Exception] = {}
        self.waits = 0

    def launch(
        self, claim: str, hostname: str, agent: str, runs: Sequence[str], launches: Iterable[Launch]
    ) -> None:
        launched = list(launches)
        assert [each.mesos_task_id for each in launched] == runs
        if hostname in self.failures:
            raise self.failures[hostname]
        self.launched[f"{hostname} {agent} {claim}"] = launched

    async def room(self) -> None:
        self.waits += 1


def request(hosts: int, *configs: bytes) -> pb.LaunchTasksRequest:
    wire = pb.LaunchTasksRequest(configs=configs)
    for number in range(hosts):
        host = wire.hosts.add(hostname=f"h{number}", agent_id="S", host_offer_id="O", configs=[0])
        host.tasks.add(mesos_task_id=f"{JOB}-{number}-1", config=0, ports={"http": 31000 + number})
    return wire


def config(**fields: Any) -> bytes:
    wire = task_pb2.TaskConfig(resource=task_pb2.ResourceConfig(cpuLimit=1), **fields)
    return wire.SerializeToString()


async def outcomes(manager: Manager, wire: pb.LaunchTasksRequest) -> list[tuple[int, str]]:
    served = LaunchOnHosts(cast(HostManager, manager))
    answer = await served.LaunchTasks(wire, Context("jobmgr/one"))
    return [(each.result, each.message) for each in answer.outcomes]


async def test_hosts_are_launched_on_one_by_one_and_the_call_waits_for_room_once() -> None:
    manager = Manager()
    manager.failures = {"h1": InvalidOffers("over"), "h2": Unavailable("no connection")}
    wire = request(4, config(ports=[task_pb2.PortConfig(name="http")]))
    wire.hosts[3].ClearField("tasks")
    found = await outcomes(manager, wire)
    assert found[:3] == [
        (Kind.RESULT_LAUNCHED, ""),
        (Kind.RESULT_CLAIM_OVER, "over"),
        (Kind.RESULT_UNAVAILABLE, "no connection"),
    ]
    assert found[3][0] == Kind.RESULT_FAULTY
    assert manager.waits == 1
    ((launch,),) = manager.launched.values()
    assert (launch.ports, launch.dynamic_ports, launch.resources.cpu) == ({"http": 31000}, (31000,), 1000)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (b"\xff", "encoded TaskConfig"),
        (
            config(command=mesos_pb2.CommandInfo(uris=[mesos_pb2.CommandInfo.URI(value="x")]))[:-1],
            "TaskConfig",
        ),
        (task_pb2.TaskConfig(resource={"cpuLimit": float("nan")}).SerializeToString(), "finite"),  # type: ignore[arg-type]
        (task_pb2.TaskConfig(resource={"cpuLimit": -1}).SerializeToString(), "cpuLimit"),  # type: ignore[arg-type]
    ],
)
async def test_an_invalid_config_is_the_fault_of_the_hosts_that_have_it(wrong: bytes, why: str) -> None:
    manager, wire = Manager(), request(2, config(), wrong)
    wire.hosts[1].configs[0] = 1
    first, (result, message) = await outcomes(manager, wire)
    assert first == (Kind.RESULT_LAUNCHED, "")
    assert result == Kind.RESULT_FAULTY
    assert "configs[1]" in message or why in message
    assert why in message


async def test_places_that_no_config_has_are_refused() -> None:
    wire = request(2, config())
    wire.hosts[0].configs[0] = 7
    wire.hosts[1].tasks[0].config = 7
    assert [result for result, _ in await outcomes(Manager(), wire)] == [Kind.RESULT_FAULTY] * 2
    with pytest.raises(InvalidArgument, match="at most 100"):
        await outcomes(Manager(), request(MOST_HOSTS + 1, config()))


def full_config(**fields: Any) -> task_pb2.TaskConfig:
    wire = task_pb2.TaskConfig(resource=task_pb2.ResourceConfig(cpuLimit=1), **fields)
    wire.command.value = "true"
    wire.command.environment.variables.add(name="PELOTON_INSTANCE_ID", value="the user's")
    wire.labels.add(key="peloton.task_id", value="the user's")
    wire.labels.add(key="team", value="x")
    wire.labels.add(key="peloton.job_name", value="by the system")
    return wire


@pytest.mark.parametrize(
    "wire",
    [
        full_config(),
        full_config(workload={"stop_signal": "SIGINT", "checkpoint_file": "saved", "grace_seconds": 60}),
        full_config(ports=[task_pb2.PortConfig(name="http", envName="HTTP")]),
        full_config(executor={"type": mesos_pb2.ExecutorInfo.CUSTOM}),
        full_config(healthCheck={"enabled": True, "type": 1, "commandCheck": {"command": "true"}}),
        full_config(container={"type": mesos_pb2.ContainerInfo.MESOS}),
    ],
)
def test_tasks_described_together_are_described_as_alone(wire: task_pb2.TaskConfig) -> None:
    def resource(taken: Taken) -> mesos_pb2.Resource:
        scalar = mesos_pb2.Value.Scalar(value=taken.amount)
        return mesos_pb2.Resource(name="cpus", type=mesos_pb2.Value.SCALAR, scalar=scalar)

    other = LaunchConfig.of(full_config(), "other")
    one = LaunchConfig.of(wire, "config")
    given = {"http": 31000}
    tasks = [
        (one.launch(f"{JOB}-0-1", given, None), [Taken(0, 1)]),
        (one.launch(f"{JOB}-10-12", given | {"http": 31001}, None), [Taken(0, 1)]),
        (one.launch(f"{JOB}-3-1", given, None), [Taken(0, 1), Taken(1, 2)]),
        (one.launch(f"{OTHER}-3-1", given, None), [Taken(0, 1), Taken(1, 2)]),
        (other.launch(f"{OTHER}-4-1", given, None), [Taken(0, 1), Taken(1, 2)]),
        (other.launch(f"{OTHER}-5-1", given, None), [Taken(0, 1), Taken(1, 2)]),
    ]
    infos = TaskInfos("S1", resource)
    for launch, taken in tasks:
        assert infos.of(launch, taken) == task_info(launch, "S1", map(resource, taken))
