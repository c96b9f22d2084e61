"""Rules for the workload of a job and of its tasks: what makes no sense is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mesos.v1 import mesos_pb2
from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument
from peloton.model.amounts import duration
from peloton.model.job import JobSpec
from peloton.model.plural import plural
from peloton.model.states import JobType
from peloton.model.task import PortSpec, TaskSpec
from peloton.model.workload import MAX_GROWTH_INTERVAL_SECONDS, ROLES, STOP_SIGNALS, Framework, GangPolicy
from peloton.wire.job import job_spec
from peloton.wire.overrides import task_config
from peloton.wire.validation.task import check_enum

MAX_PATH = 200

_NEEDS_PORT: Mapping[Framework, str] = {
    Framework.TORCH: "the first member",
    Framework.JAX: "the first member",
    Framework.HOROVOD: "the first member",
    Framework.RAY: "the first member",
    Framework.TENSORFLOW: "each member",
}
"""Who of a gang listens on a port, by framework. The others need none."""
_GROW_IN_PLACE = frozenset({Framework.NONE, Framework.TORCH, Framework.RAY})
"""Those whose members can join and leave while the others go on; PyTorch's by torchrun."""


def check_workload(config: job_pb2.JobConfig) -> None:
    """Check the workloads of a job and of its tasks, if it has any. Raises InvalidArgument."""
    if not has_workload(config):
        return
    check_enum(config.workload, "framework", "workload.framework")
    check_enum(config.workload, "gang_policy", "workload.gang_policy")
    spec = job_spec(config, 0)
    _check_job(spec)
    if spec.workload.elastic:
        _check_elastic(config, spec)
    for path, first, task in _tasks(spec):
        _check_port(task, f"{path}.workload")
        _check_role(spec, task, f"{path}.workload")
        _check_peer(spec, first, task, f"{path}.workload.peer.instance")
        _check_saving(task, f"{path}.workload")
    if spec.workload.meets:
        _check_members(spec)
    if gives_tokens(config):
        _check_containers(config)


def gives_tokens(config: job_pb2.JobConfig) -> bool:
    """Return whether tasks of a job ask for a token."""
    return any(task.workload.token for task in (config.defaultConfig, *config.instanceConfig.values()))


def has_workload(config: job_pb2.JobConfig) -> bool:
    """Return whether a job or one of its tasks has a workload."""
    if config.HasField("workload") or config.defaultConfig.HasField("workload"):
        return True
    return any(task.HasField("workload") for task in config.instanceConfig.values())


def _tasks(spec: JobSpec) -> Iterator[tuple[str, int, TaskSpec]]:
    """Iterate over the different specs, with their paths and the first instances that have them."""
    own = sorted(spec.overrides)
    first = next((number for number, instance in enumerate(own) if number != instance), len(own))
    if spec.type is JobType.DAEMON or first < spec.instance_count:
        yield "defaultConfig", first, spec.default
    for instance in own:
        yield f"instanceConfig[{instance}]", instance, spec.overrides[instance]


def _check_elastic(config: job_pb2.JobConfig, spec: JobSpec) -> None:
    """Check that a gang of this kind can be elastic."""
    interval = config.workload.elastic.growth_interval_seconds
    if interval > MAX_GROWTH_INTERVAL_SECONDS:
        wanted = f"at most {MAX_GROWTH_INTERVAL_SECONDS}, which is {duration(MAX_GROWTH_INTERVAL_SECONDS)}"
        raise InvalidArgument("workload.elastic.growth_interval_seconds", interval, wanted)
    policy = spec.workload.gang_policy
    if policy is GangPolicy.RESTART_MEMBER:
        _check_in_place(spec, interval)
    for path, first, task in _tasks(spec):
        if task.kill_on_preempt:
            wanted = "allowed in an elastic gang, which gives members back and goes on without them"
            raise InvalidArgument(f"{path}.preemptionPolicy.killOnPreempt", "true", wanted)
        if task.workload.peer is not None:
            wanted = "needed in an elastic gang, whose members get the addresses of all: leave it out"
            raise InvalidArgument(f"{path}.workload.peer.instance", task.workload.peer, wanted)
        if task.workload.role == "chief" and first >= spec.gang_size:
            wanted = f"the role of an instance below {spec.gang_size}, without which the gang does not run"
            raise InvalidArgument(f"{path}.workload.role", "chief", wanted)


def _check_in_place(spec: JobSpec, interval: int) -> None:
    """Check that the members of an elastic gang can join and leave while the others go on."""
    framework = spec.workload.framework
    if framework not in _GROW_IN_PLACE:
        wanted = (
            f"allowed in an elastic gang of {framework.name}, whose processes are as many as when they "
            "started: leave it out"
        )
        raise InvalidArgument("workload.gang_policy", GangPolicy.RESTART_MEMBER.name, wanted)
    if interval:
        wanted = (
            "of use with GANG_POLICY_RESTART_MEMBER, by which members join when there is room: leave it out"
        )
        raise InvalidArgument("workload.elastic.growth_interval_seconds", interval, wanted)


def _check_job(spec: JobSpec) -> None:
    _check_policy(spec)
    if not spec.workload.meets:
        return
    if spec.workload.framework is not Framework.NONE:
        path, value = "workload.framework", spec.workload.framework.name
    else:
        path, value = ("workload.elastic", "{}") if spec.workload.elastic else ("workload.rendezvous", "true")
    if spec.type is not JobType.BATCH:
        raise InvalidArgument(path, value, f"allowed in a {spec.type.name} job, which has no gang")
    if not spec.rendezvous_size:
        raise InvalidArgument(
            path,
            value,
            f"allowed in a job of {plural(spec.instance_count, 'instance')} without a gang: set "
            "sla.minimumRunningInstances to the number of its members",
        )


def _check_policy(spec: JobSpec) -> None:
    policy = spec.workload.gang_policy
    if policy is GangPolicy.DEFAULT or spec.gang_size:
        return
    if spec.type is not JobType.BATCH:
        allowed = f"allowed in a {spec.type.name} job, which has no gang"
    else:
        allowed = "allowed in a job without a gang: set sla.minimumRunningInstances to 2 or more"
    raise InvalidArgument("workload.gang_policy", policy.name, allowed)


def _check_containers(config: job_pb2.JobConfig) -> None:
    """Check that Mesos can put the files of a token into the containers of the tasks that ask for it."""
    tasks = [("defaultConfig", config.defaultConfig)]
    tasks += [(f"instanceConfig[{i}]", task_config(config, i)) for i in sorted(config.instanceConfig)]
    for path, task in tasks:
        if not task.workload.token:
            continue
        if task.HasField("container") and task.container.type != mesos_pb2.ContainerInfo.MESOS:
            found = mesos_pb2.ContainerInfo.Type.Name(task.container.type)
            expected = "MESOS, into which a token can be put (workload.token)"
            raise InvalidArgument(f"{path}.container.type", found, expected)
        if task.executor.HasField("container"):
            expected = "left out of a task with workload.token: the container of the task has the token"
            raise InvalidArgument(f"{path}.executor.container", "a container", expected)


def _check_port(task: TaskSpec, path: str) -> None:
    name = task.workload.rendezvous_port
    if name and all(port.name != name for port in task.ports):
        known = ", ".join(port.name for port in task.ports) or "it has none"
        raise InvalidArgument(f"{path}.rendezvous_port", name, f"the name of a port of the task ({known})")


def _check_role(spec: JobSpec, task: TaskSpec, path: str) -> None:
    role = task.workload.role
    if not role:
        return
    if role not in ROLES:
        raise InvalidArgument(f"{path}.role", role, f"one of {', '.join(ROLES)}")
    if spec.workload.framework is not Framework.TENSORFLOW:
        raise InvalidArgument(f"{path}.role", role, "allowed unless workload.framework is TENSORFLOW")


def _check_peer(spec: JobSpec, instance: int, task: TaskSpec, path: str) -> None:
    """Check whose address a task needs: of one that exists, has a port, and waits for nobody itself."""
    peer = task.workload.peer
    if peer is None:
        return
    if spec.type is JobType.DAEMON:
        raise InvalidArgument(path, peer, "allowed in a DAEMON job, whose hosts decide about its instances")
    if peer >= spec.instance_count:
        bound = f"below instanceCount, which is {spec.instance_count}"
        raise InvalidArgument(path, peer, f"an instance of the job: {bound}")
    if spec.in_gang(instance) and not spec.in_gang(peer):
        gang = f"0 to {spec.gang_size - 1}, which is placed as a whole"
        raise InvalidArgument(path, peer, f"an instance of the task's gang: {gang}")
    other = spec.task(peer)
    if other.workload.peer not in (None, peer):
        waits = f"instance {peer} itself waits for instance {other.workload.peer}"
        raise InvalidArgument(path, peer, f"an instance that needs no other one's address: {waits}")
    if other.rendezvous_port is None:
        raise InvalidArgument(path, peer, "an instance with a port, by which it is reached")


def _check_saving(task: TaskSpec, path: str) -> None:
    name = task.workload.stop_signal
    if name and name not in STOP_SIGNALS:
        raise InvalidArgument(f"{path}.stop_signal", name, f"one of {', '.join(STOP_SIGNALS)}")
    file = task.workload.checkpoint_file
    if file.startswith("/") or ".." in file.split("/") or "\0" in file or len(file) > MAX_PATH:
        wanted = f"a path below the sandbox of up to {MAX_PATH} characters, without `..`"
        raise InvalidArgument(f"{path}.checkpoint_file", file, wanted)


def _check_members(spec: JobSpec) -> None:
    """Check that the members of a gang can meet as their framework does."""
    size, framework = spec.rendezvous_size, spec.workload.framework
    members = [(path, task) for path, first, task in _tasks(spec) if first < size]
    listens = _NEEDS_PORT.get(framework)
    for path, task in members if listens == "each member" else members[:0]:
        _check_listens(framework, path, task.rendezvous_port, "each member")
    if listens == "the first member":
        path = "instanceConfig[0]" if 0 in spec.overrides else "defaultConfig"
        _check_listens(framework, path, spec.task(0).rendezvous_port, listens)
    if framework is Framework.TENSORFLOW:
        _check_cluster(spec, size)


def _check_listens(framework: Framework, path: str, port: PortSpec | None, who: str) -> None:
    if port is None or port.value:
        given = "no dynamic port" if port is None else f"the fixed port {port.value}"
        raise InvalidArgument(
            f"{path}.ports",
            given,
            f"enough for {framework.name}: {who} of the gang listens on a dynamic port, such as "
            "{name: rendezvous, value: 0, envName: RENDEZVOUS_PORT}",
        )


def _check_cluster(spec: JobSpec, size: int) -> None:
    """Check the roles of TensorFlow's cluster: one chief at most, and somebody who works."""
    inheriting = size - sum(1 for instance in spec.overrides if instance < size)
    roles = [(spec.default.workload.role, inheriting)]
    roles += [(task.workload.role, 1) for instance, task in spec.overrides.items() if instance < size]
    chiefs = sum(count for role, count in roles if role == "chief")
    if chiefs > 1:
        raise InvalidArgument("workload.framework", "TENSORFLOW", f"run with {chiefs} chiefs: name one")
    if not any(count for role, count in roles if role in ("", "worker", "chief")):
        raise InvalidArgument("workload.framework", "TENSORFLOW", "run without a worker or chief: name one")
