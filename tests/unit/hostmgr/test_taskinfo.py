"""The TaskInfo of launches."""

from __future__ import annotations

import pytest

from hostmgr.core.state.offers import Taken
from hostmgr.mesos.taskinfo import task_info
from hostmgr.mesos.translate import ResourceTemplates, agent_from, offer_from, sums
from mesos.v1 import mesos_pb2
from mesos.v1.master import master_pb2
from minicluster.mesos.master.core.simulated_agents import EXIT_LABEL, SECONDS_LABEL
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument
from peloton.model.resources import Resources
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.wire.hosts import labels_from, resources_to
from peloton.wire.launch import launch_from

JOB = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"


def config() -> task_pb2.TaskConfig:
    return task_pb2.TaskConfig(
        resource=task_pb2.ResourceConfig(cpuLimit=0.5, memLimitMb=64),
        command=mesos_pb2.CommandInfo(
            shell=True,
            value="serve",
            environment=mesos_pb2.Environment(
                variables=[mesos_pb2.Environment.Variable(name="MINE", value="1")]
            ),
        ),
        labels=[
            peloton_pb2.Label(key="team", value="x"),
            peloton_pb2.Label(key="peloton.job_id", value="forged"),
        ],
        ports=[
            task_pb2.PortConfig(name="http", envName="HTTP_PORT"),
            task_pb2.PortConfig(name="admin", value=80, envName="ADMIN_PORT"),
        ],
    )


def launchable(wanted: task_pb2.TaskConfig | None = None) -> hostsvc_pb2.LaunchableTask:
    return hostsvc_pb2.LaunchableTask(
        taskId=mesos_pb2.TaskID(value=f"{JOB}-3-2"), config=wanted or config(), ports={"http": 31005}
    )


def info(wanted: task_pb2.TaskConfig | None = None) -> mesos_pb2.TaskInfo:
    return task_info(launch_from(launchable(wanted)), "S1", resources_to(Resources.of(0.5, 64)))


def test_need_takes_dynamic_ports_only() -> None:
    found = launch_from(launchable())
    assert found.resources == Resources.of(0.5, 64) and found.dynamic_ports == (31005,)
    task = launchable()
    del task.ports["http"]
    with pytest.raises(InvalidArgument, match="http"):
        launch_from(task)


def test_environment_in_order() -> None:
    variables = [(each.name, each.value) for each in info().command.environment.variables]
    assert variables == [
        ("MINE", "1"),
        ("PELOTON_JOB_ID", JOB),
        ("PELOTON_INSTANCE_ID", "3"),
        ("PELOTON_TASK_ID", f"{JOB}-3"),
        ("HTTP_PORT", "31005"),
        ("ADMIN_PORT", "80"),
    ]


def test_names_labels_discovery_and_grace() -> None:
    found = info()
    assert (found.name, found.task_id.value, found.agent_id.value) == (JOB, f"{JOB}-3-2", "S1")
    assert [(each.key, each.value) for each in found.labels.labels] == [
        ("team", "x"),
        ("peloton.job_id", JOB),
        ("peloton.instance_id", "3"),
        ("peloton.task_id", f"{JOB}-3"),
    ]
    assert (found.discovery.name, found.discovery.visibility) == (JOB, mesos_pb2.DiscoveryInfo.EXTERNAL)
    ports = {each.name: each.number for each in found.discovery.ports.ports}
    assert ports == {"http": 31005, "admin": 80}
    assert found.kill_policy.grace_period.nanoseconds == 30_000_000_000
    assert not found.HasField("health_check") and not found.HasField("executor")
    own = config()
    own.killGracePeriodSeconds = 5
    assert info(own).kill_policy.grace_period.nanoseconds == 5_000_000_000


@pytest.mark.parametrize("key", [SECONDS_LABEL, EXIT_LABEL])
def test_labels_for_simulated_agents_reach_them(key: str) -> None:
    """Kueue's workloads all ran for a second, as the labels had a prefix that is dropped."""
    own = config()
    own.labels.add(key=key, value="7")
    assert {each.key: each.value for each in info(own).labels.labels}[key] == "7"


def test_a_task_has_the_time_to_save_that_it_asks_for_and_the_operator_allows() -> None:
    own = config()
    own.workload.grace_seconds = 120
    assert info(own).kill_policy.grace_period.nanoseconds == 120_000_000_000
    own.workload.grace_seconds = 1000
    assert info(own).kill_policy.grace_period.nanoseconds == 600_000_000_000
    own.workload.grace_seconds, own.killGracePeriodSeconds = 5, 700
    assert info(own).kill_policy.grace_period.nanoseconds == 700_000_000_000
    assert "peloton.stop_signal" not in {each.key for each in info(own).labels.labels}
    own.workload.stop_signal, own.workload.checkpoint_file = "SIGUSR1", "c/last"
    labels = {each.key: each.value for each in info(own).labels.labels}
    assert (labels["peloton.stop_signal"], labels["peloton.checkpoint_file"]) == ("SIGUSR1", "c/last")


def test_command_health_check_inherits_the_environment() -> None:
    wanted = config()
    wanted.healthCheck.enabled = True
    wanted.healthCheck.type = task_pb2.HealthCheckConfig.COMMAND
    wanted.healthCheck.commandCheck.command = "true"
    check = info(wanted).health_check
    assert (check.type, check.command.value) == (mesos_pb2.HealthCheck.COMMAND, "true")
    assert (check.delay_seconds, check.interval_seconds, check.timeout_seconds) == (0, 10, 20)
    assert check.consecutive_failures == 3
    assert check.command.environment == info(wanted).command.environment
    wanted.healthCheck.initialIntervalSecs = 15
    assert info(wanted).health_check.delay_seconds == 15
    wanted.healthCheck.commandCheck.unshareEnvironments = True
    assert not info(wanted).health_check.command.HasField("environment")


def test_http_health_check_and_what_mesos_has_not() -> None:
    wanted = config()
    wanted.healthCheck.enabled = True
    wanted.healthCheck.type = task_pb2.HealthCheckConfig.HTTP
    wanted.healthCheck.httpCheck.port = 8080
    wanted.healthCheck.httpCheck.path = "/ok"
    wanted.healthCheck.intervalSecs = 1
    check = info(wanted).health_check
    assert (check.http.scheme, check.http.port, check.http.path) == ("http", 8080, "/ok")
    assert check.interval_seconds == 1
    wanted.healthCheck.type = task_pb2.HealthCheckConfig.GRPC
    with pytest.raises(InvalidArgument, match="GRPC"):
        info(wanted)


def test_custom_executor() -> None:
    wanted = config()
    wanted.executor.type = mesos_pb2.ExecutorInfo.CUSTOM
    wanted.executor.executor_id.value = "whatever"
    wanted.executor.data = b"thrift"
    wanted.executor.resources.extend(resources_to(Resources.of(1)))
    found = info(wanted)
    assert found.executor.executor_id.value == f"thermos-{JOB}-3-2"
    assert (found.executor.name, found.data) == ("AuroraExecutor", b"thrift")
    assert not found.executor.resources and not found.HasField("command")
    assert found.executor.command.value == "serve"


def test_the_container_is_passed_unchanged() -> None:
    wanted = config()
    wanted.container.type = mesos_pb2.ContainerInfo.DOCKER
    wanted.container.docker.image = "debian:12"
    assert info(wanted).container == wanted.container


def scalar(name: str, value: float, **more: object) -> mesos_pb2.Resource:
    return mesos_pb2.Resource(
        name=name, type=mesos_pb2.Value.SCALAR, scalar=mesos_pb2.Value.Scalar(value=value), **more  # type: ignore[arg-type]
    )  # fmt: skip


def test_resources_go_back_in_the_form_in_which_they_came() -> None:
    templates = ResourceTemplates()
    offer = mesos_pb2.Offer(
        id=mesos_pb2.OfferID(value="O1"),
        framework_id=mesos_pb2.FrameworkID(value="F"),
        agent_id=mesos_pb2.AgentID(value="S1"),
        hostname="h",
        resources=[
            scalar("cpus", 3, role="*", allocation_info={"role": "peloton"}),
            scalar("cpus", 1, role="peloton", allocation_info={"role": "peloton"}),
            scalar("cpus", 2, role="*", revocable={}),
            scalar("disk", 9, disk={"persistence": {"id": "v"}}),
            scalar("disk", 9, disk={"source": {"type": "MOUNT"}}),
            scalar("widgets", 9),
        ],
    )
    entries = offer_from(offer, templates).entries
    assert [(each.reserved, each.revocable, each.amount, each.volume) for each in entries] == [
        (False, False, 3000, ""), (True, False, 1000, ""), (False, True, 2000, ""), (False, False, 9000, "v"),
    ]  # fmt: skip
    assert len({each.template for each in entries}) == 4
    back = templates.resource(Taken(entries[1].template, 250))
    assert (back.role, back.allocation_info.role, back.scalar.value) == ("peloton", "peloton", 0.25)
    assert templates.resource(Taken(entries[2].template, 1)).HasField("revocable")
    assert sums(offer.resources[:3]) == (Resources.of(4), 2000)


def test_labels_of_every_kind_of_attribute() -> None:
    value = mesos_pb2.Value
    attributes = [
        mesos_pb2.Attribute(name="rack", type=value.TEXT, text=value.Text(value="r1")),
        mesos_pb2.Attribute(name="level", type=value.SCALAR, scalar=value.Scalar(value=2.5)),
        mesos_pb2.Attribute(name="disk", type=value.SET, set=value.Set(item=["ssd", "nvme"])),
        mesos_pb2.Attribute(
            name="span", type=value.RANGES, ranges=value.Ranges(range=[value.Range(begin=1, end=9)])
        ),
    ]
    assert labels_from(attributes) == (
        ("rack", "r1"), ("level", "2.500000"), ("disk", "ssd"), ("disk", "nvme"), ("span", "1-9"),
    )  # fmt: skip


def test_an_agent_counts_what_our_role_has_of_it() -> None:
    wire = master_pb2.Response.GetAgents.Agent(
        agent_info=mesos_pb2.AgentInfo(hostname="h", id=mesos_pb2.AgentID(value="S1")),
        active=True,
        version="1",
        total_resources=[scalar("cpus", 8), scalar("cpus", 2, revocable={})],
        allocated_resources=[
            scalar("cpus", 1, allocation_info={"role": "peloton"}),
            scalar("cpus", 4, allocation_info={"role": "other"}),
        ],
    )
    agent = agent_from(wire, "peloton")
    assert (agent.total, agent.slack_cpu, agent.allocated) == (Resources.of(8), 2000, Resources.of(1))


def test_labels_of_the_system_are_passed_on() -> None:
    """jobmgr has put them in place of what the user gave under those keys."""
    wanted = config()
    wanted.labels.add(key="peloton.job_name", value="web")
    wanted.labels.add(key="peloton.other", value="forged")
    wanted.labels.add(key="peloton.members_file", value="PELOTON_MEMBERS_FILE")
    keys = [label.key for label in info(wanted).labels.labels]
    passed_on = ["team", "peloton.job_name", "peloton.members_file"]
    assert keys == [*passed_on, "peloton.job_id", "peloton.instance_id", "peloton.task_id"]


def test_a_pod_of_somebody_else_is_no_task_of_mesos() -> None:
    wanted = config()
    wanted.foreignPod.name = "web"
    with pytest.raises(InvalidArgument, match="foreignPod"):
        info(wanted)
