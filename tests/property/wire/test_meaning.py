"""What a config means: another spelling of it changes nothing, and another launch is another meaning."""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from mesos.v1 import mesos_pb2
from peloton.api.v0.task import task_pb2
from peloton.model.payload import SecretRef
from peloton.wire.changes import changes
from peloton.wire.meaning import canonical, fingerprint

Config = task_pb2.TaskConfig
Host = mesos_pb2.ContainerInfo.DockerInfo.HOST
LabelConstraint = task_pb2.LabelConstraint


def label_constraint(draw: random.Random) -> task_pb2.Constraint:
    """Return a constraint on a label."""
    found = task_pb2.Constraint(type=task_pb2.Constraint.LABEL_CONSTRAINT)
    found.labelConstraint.kind = draw.choice((LabelConstraint.TASK, LabelConstraint.HOST))
    found.labelConstraint.condition = LabelConstraint.CONDITION_EQUAL
    found.labelConstraint.label.key = draw.choice("xyz")
    found.labelConstraint.requirement = draw.randrange(3)
    return found


def config(draw: random.Random) -> Config:
    """Return a config with some of all that it may have."""
    found = Config(name=draw.choice(("", "web")), controller=draw.random() < 0.1)
    for key in draw.sample("abcd", draw.randrange(4)):
        found.labels.add(key=key, value=draw.choice("12"))
    found.resource.cpuLimit = draw.choice((0.1, 1, 2.5))
    found.killGracePeriodSeconds = draw.choice((0, 30, 45))
    found.command.value = draw.choice(("sleep 1", "sleep 2"))
    for name in draw.sample(("A", "B", "C"), draw.randrange(4)):
        found.command.environment.variables.add(name=name, value=draw.choice("12"))
    for name in draw.sample(("x.tar", "y.tar"), draw.randrange(3)):
        found.command.uris.add(value=name)
    for name in draw.sample(("http", "admin", "debug"), draw.randrange(4)):
        found.ports.add(name=name, envName=name.upper())
    if draw.random() < 0.6:
        container(draw, found)
    if draw.random() < 0.5:
        health_check(draw, found)
    if draw.random() < 0.5:
        both = found.constraint.andConstraint.constraints
        found.constraint.type = task_pb2.Constraint.AND_CONSTRAINT
        both.extend(label_constraint(draw) for _ in range(draw.randrange(1, 4)))
    return found


def container(draw: random.Random, found: Config) -> None:
    """Add a container of either kind, with volumes."""
    if draw.random() < 0.5:
        found.container.type = mesos_pb2.ContainerInfo.DOCKER
        found.container.docker.image = draw.choice(("one", "two"))
        for number in draw.sample((80, 81), draw.randrange(3)):
            found.container.docker.port_mappings.add(host_port=number, container_port=number)
    else:
        found.container.type = mesos_pb2.ContainerInfo.MESOS
        found.container.mesos.image.type = mesos_pb2.Image.DOCKER
        found.container.mesos.image.docker.name = "one"
    for path in draw.sample(("/a", "/b", "/c"), draw.randrange(4)):
        found.container.volumes.add(container_path=path, host_path="/h", mode=mesos_pb2.Volume.RW)


def health_check(draw: random.Random, found: Config) -> None:
    """Add a check of either kind."""
    check = found.healthCheck
    check.enabled = draw.random() < 0.8
    check.type = draw.choice((check.COMMAND, check.HTTP))
    check.commandCheck.command = "true"
    check.httpCheck.port = 80


def respelled(draw: random.Random, given: Config) -> Config:
    """Return the config in another spelling: sets in other orders, and some defaults spelled out."""
    found = Config()
    found.CopyFrom(given)
    found.name = draw.choice(("", "other", "web"))
    lists = [found.labels, found.ports, found.command.environment.variables, found.container.volumes]
    if found.container.HasField("docker"):
        lists.append(found.container.docker.port_mappings)
    lists.append(found.constraint.andConstraint.constraints)
    for each in lists:
        shuffled(draw, each)
    for spell in draw.sample(SPELLINGS, draw.randrange(len(SPELLINGS) + 1)):
        spell(found)
    if not given.HasField("container"):
        found.ClearField("container")
    if not given.HasField("constraint"):
        found.ClearField("constraint")
    return found


def shuffled(draw: random.Random, messages: object) -> None:
    """Put the messages of a list into another order."""
    kept = list(messages)  # type: ignore[call-overload]
    copies = [type(each).FromString(each.SerializePartialToString()) for each in kept]
    draw.shuffle(copies)
    del messages[:]  # type: ignore[attr-defined]
    messages.extend(copies)  # type: ignore[attr-defined]


def _fetch(found: Config) -> None:
    for uri in found.command.uris:
        uri.extract, uri.executable, uri.cache = True, False, False


def _network(found: Config) -> None:
    if found.container.HasField("docker"):
        found.container.docker.network = Host
        found.container.docker.privileged = False
        found.container.docker.force_pull_image = False


def _image(found: Config) -> None:
    if found.container.mesos.HasField("image"):
        found.container.mesos.image.cached = True


def _shell(found: Config) -> None:
    found.command.shell = True


def _grace(found: Config) -> None:
    found.killGracePeriodSeconds = found.killGracePeriodSeconds or 30


def _check(found: Config) -> None:
    check = found.healthCheck
    if not check.enabled:
        check.intervalSecs = 7
        return
    check.intervalSecs, check.timeoutSecs, check.maxConsecutiveFailures = 10, 20, 3
    if check.type == check.HTTP:
        check.httpCheck.scheme, check.httpCheck.path = "http", "/"
        check.commandCheck.command = "never run"
    else:
        check.httpCheck.port = 8080


def _policies(found: Config) -> None:
    found.restartPolicy.SetInParent()
    found.preemptionPolicy.SetInParent()


def _variables(found: Config) -> None:
    for variable in found.command.environment.variables:
        variable.type = mesos_pb2.Environment.Variable.VALUE


def _overwritten(found: Config) -> None:
    """Give a variable that a later one of its name replaces."""
    held = [(each.name, each.value) for each in found.command.environment.variables]
    if held:
        del found.command.environment.variables[:]
        for name, value in [(held[-1][0], "replaced"), *held]:
            found.command.environment.variables.add(name=name, value=value)


def _dropped_label(found: Config) -> None:
    found.labels.add(key="peloton.mine", value="dropped at launch")


SPELLINGS: tuple[Callable[[Config], None], ...] = (
    _fetch,
    _network,
    _image,
    _shell,
    _grace,
    _check,
    _policies,
    _variables,
    _overwritten,
    _dropped_label,
)


def _add_label(found: Config) -> None:
    found.labels.add(key="new")


def _label(found: Config) -> None:
    found.labels.add(key="tier").value = "b"


def _cpu(found: Config) -> None:
    found.resource.cpuLimit += 1


def _gpu(found: Config) -> None:
    found.resource.gpuLimit += 1


def _command(found: Config) -> None:
    found.command.value += " more"


def _argument(found: Config) -> None:
    found.command.arguments.append("x")


def _no_shell(found: Config) -> None:
    found.command.shell = False


def _user(found: Config) -> None:
    found.command.user = "nobody"


def _variable(found: Config) -> None:
    found.command.environment.variables.add(name="A", value="another")


def _executable(found: Config) -> None:
    found.command.uris.add(value="z").executable = True


def _not_extracted(found: Config) -> None:
    found.command.uris.add(value="z").extract = False


def _output(found: Config) -> None:
    found.command.uris.add(value="z").output_file = "w"


def _port(found: Config) -> None:
    found.ports.add(name="more", value=9000)


def _port_variable(found: Config) -> None:
    found.ports.add(name="more", envName="MORE")


def _volume(found: Config) -> None:
    if not found.HasField("container"):
        found.container.type = mesos_pb2.ContainerInfo.MESOS
    found.container.volumes.add(container_path="/new", mode=mesos_pb2.Volume.RO)


def _container(found: Config) -> None:
    found.container.type = mesos_pb2.ContainerInfo.MESOS
    found.container.hostname = "another"


def _privileged(found: Config) -> None:
    found.container.type = mesos_pb2.ContainerInfo.DOCKER
    found.container.docker.image = found.container.docker.image or "one"
    found.container.docker.privileged = True


def _bridge(found: Config) -> None:
    found.container.type = mesos_pb2.ContainerInfo.DOCKER
    found.container.docker.image = found.container.docker.image or "one"
    found.container.docker.network = mesos_pb2.ContainerInfo.DockerInfo.BRIDGE


def _no_limit(found: Config) -> None:
    """Set a limit of 0, which is another one than none."""
    found.container.type = mesos_pb2.ContainerInfo.MESOS
    found.container.rlimit_info.rlimits.add(type=mesos_pb2.RLimitInfo.RLimit.RLMT_CORE, hard=0, soft=0)


def _checked(found: Config) -> None:
    check = found.healthCheck
    check.enabled, check.type = True, check.COMMAND
    check.commandCheck.command += " and more"


def _interval(found: Config) -> None:
    found.healthCheck.enabled = True
    found.healthCheck.intervalSecs = 99


def _kill_grace(found: Config) -> None:
    found.killGracePeriodSeconds = 99


def _constraint(found: Config) -> None:
    kept = task_pb2.Constraint()
    kept.CopyFrom(found.constraint)
    found.constraint.Clear()
    found.constraint.type = task_pb2.Constraint.OR_CONSTRAINT
    found.constraint.orConstraint.constraints.add(type=task_pb2.Constraint.LABEL_CONSTRAINT)
    found.constraint.orConstraint.constraints.add().CopyFrom(kept)


def _persistent(found: Config) -> None:
    found.volume.containerPath = "/data"


def _executor(found: Config) -> None:
    found.executor.type = mesos_pb2.ExecutorInfo.CUSTOM
    found.executor.executor_id.value = "any"
    found.executor.data = b"more"


def _flags(found: Config) -> None:
    found.revocable = not found.revocable


CHANGES: tuple[Callable[[Config], None], ...] = (
    _add_label,
    _label,
    _cpu,
    _gpu,
    _command,
    _argument,
    _no_shell,
    _user,
    _variable,
    _executable,
    _not_extracted,
    _output,
    _port,
    _port_variable,
    _volume,
    _container,
    _privileged,
    _bridge,
    _no_limit,
    _checked,
    _interval,
    _kill_grace,
    _constraint,
    _persistent,
    _executor,
    _flags,
)


@given(st.randoms(use_true_random=False))
def test_another_spelling_means_the_same(draw: random.Random) -> None:
    one = config(draw)
    other = respelled(draw, one)
    assert canonical(one) == canonical(other)
    assert fingerprint(one) == fingerprint(other)
    assert changes(one, other) == ()


@given(st.randoms(use_true_random=False))
def test_the_form_is_the_form_of_itself(draw: random.Random) -> None:
    form = canonical(config(draw))
    assert canonical(form) == form


@given(st.randoms(use_true_random=False), st.sampled_from(CHANGES))
def test_another_launch_is_another_meaning(draw: random.Random, change: Callable[[Config], None]) -> None:
    one = config(draw)
    other = respelled(draw, one)
    change(other)
    assert fingerprint(one) != fingerprint(other)
    assert changes(one, other)


@given(st.randoms(use_true_random=False))
def test_secrets_are_a_set_whose_names_do_not_count(draw: random.Random) -> None:
    one, secrets = config(draw), [SecretRef(f"id {i}", f"/{i}", f"key {i}") for i in range(3)]
    renamed = [SecretRef("another", secret.path, secret.key) for secret in secrets]
    draw.shuffle(renamed)
    assert fingerprint(one, tuple(secrets)) == fingerprint(one, tuple(renamed))
    renamed[0] = SecretRef("another", renamed[0].path, "another key")
    assert fingerprint(one, tuple(secrets)) != fingerprint(one, tuple(renamed))
