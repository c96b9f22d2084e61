"""The command line by which docker runs a task: what a task may ask for, and what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.cgroups.limits import Limits
from minicluster.mesos.agent.docker_engine import why_not_run
from minicluster.mesos.agent.docker_run import (
    PARAMETERS,
    SANDBOX,
    Allowed,
    Mount,
    NotAllowed,
    Placed,
    docker_run,
    image_of,
    inside,
    split_environment,
    volumes,
)
from minicluster.mesos.agent.docker_tasks import DockerTasks
from minicluster.mesos.agent.isolation import NOTHING, Isolation
from minicluster.mesos.agent.layout import Layout
from minicluster.mesos.agent.location import RunLocation
from minicluster.mesos.agent.task_commands import SESSION_VARIABLE, Companions
from minicluster.mesos.agent.task_limits import Wanted

DOCKER = mesos.ContainerInfo.DockerInfo
SOURCE = mesos.Volume.Source
PLACED = Placed("mesos-c", "/meta/environment")
COMMON = [
    *("docker", "run", "--name", "mesos-c", "--init", "--pull=never", f"--workdir={SANDBOX}"),
    "--env-file=/meta/environment",
]


def task(**command: object) -> mesos.TaskInfo:
    made = mesos.TaskInfo(command=mesos.CommandInfo(**command))  # type: ignore[arg-type]
    made.container.type = mesos.ContainerInfo.DOCKER
    made.container.docker.image = "image:1"
    made.resources.add(name="ports", type=mesos.Value.RANGES).ranges.range.add(begin=31000, end=31001)
    return made


def run(
    made: mesos.TaskInfo,
    placed: Placed = PLACED,
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
    allowed: Allowed = Allowed(),  # noqa: B008
) -> list[str]:
    return docker_run(made, placed, limits, allowed)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ({"shell": True, "value": "echo $X"}, ["--entrypoint=/bin/sh", "image:1", "-c", "echo $X"]),
        ({"shell": True}, ["image:1"]),
        ({"shell": False, "value": "program", "arguments": ["a", "b"]}, ["image:1", "program", "a", "b"]),
        ({"shell": False, "arguments": ["a"]}, ["image:1", "a"]),
    ],
)
def test_a_command_or_the_entrypoint_of_the_image(command: dict[str, object], told: list[str]) -> None:
    assert run(task(**command)) == [*COMMON, "--network=host", *told]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ({"shell": True, "value": "echo $X"}, ["--entrypoint=/bin/sh", "image:1", "-c", "echo $X"]),
        ({"value": "run", "arguments": ["run", "a", "b"]}, ["--entrypoint=run", "image:1", "a", "b"]),
        ({"value": "program", "arguments": ["other", "a"]}, ["--entrypoint=program", "image:1", "a"]),
        ({"value": "program"}, ["--entrypoint=program", "image:1"]),
        ({"arguments": ["a", "b"]}, ["image:1", "a", "b"]),
        ({}, ["image:1"]),
    ],
)
def test_a_program_of_a_mesos_container_is_in_place_of_the_entrypoint(
    command: dict[str, object], told: list[str]
) -> None:
    """As its runtime isolator has it: argv[0] is among the arguments, and is not an argument."""
    made = task(**{"shell": False, **command})
    made.container.Clear()
    made.container.type = mesos.ContainerInfo.MESOS
    made.container.mesos.image.docker.name = "image:1"
    assert run(made) == [*COMMON, "--network=host", *told]


def test_limits_user_mounts_and_variables() -> None:
    mounts = (Mount("/sandbox", SANDBOX), Mount("/data", "/in", read_only=True))
    placed = Placed("mesos-c", "/meta/environment", mounts, ("PEM",), (7, 8))
    found = run(task(), placed, Limits(64 << 20, 1500, ceiling=True, pids=40))
    assert found == [
        *COMMON,
        *("--env=PEM", f"--volume=/sandbox:{SANDBOX}", "--volume=/data:/in:ro", "--network=host"),
        *("--memory=67108864", "--memory-swap=67108864", "--cpu-shares=1536", "--cpu-period=100000"),
        *("--cpu-quota=150000", "--pids-limit=40", "--user=7:8", "image:1"),
    ]


def test_a_bridge_maps_ports_that_the_task_has() -> None:
    made = task()
    made.container.hostname = "inner"
    made.container.docker.network = DOCKER.BRIDGE
    made.container.docker.port_mappings.add(host_port=31000, container_port=80)
    made.container.docker.port_mappings.add(host_port=31001, container_port=53, protocol="UDP")
    options = ["--network=bridge", "--hostname=inner", "--publish=31000:80/tcp", "--publish=31001:53/udp"]
    assert run(made) == [*COMMON, *options, "image:1"]


@pytest.mark.parametrize(
    ("network", "host_port", "container_port", "protocol", "why"),
    [
        (DOCKER.HOST, 31000, 80, "tcp", "BRIDGE and USER only"),
        (DOCKER.NONE, 31000, 80, "tcp", "BRIDGE and USER only"),
        (DOCKER.BRIDGE, 30999, 80, "tcp", "30999 that is mapped is not among the task's ports"),
        (DOCKER.BRIDGE, 31000, 70000, "tcp", "70000/tcp is not a port"),
        (DOCKER.BRIDGE, 31000, 80, "x", "80/x is not a port"),
    ],
)
def test_other_mappings_are_refused(
    network: DOCKER.Network.ValueType, host_port: int, container_port: int, protocol: str, why: str
) -> None:
    made = task()
    made.container.docker.network = network
    made.container.docker.port_mappings.add(
        host_port=host_port, container_port=container_port, protocol=protocol
    )
    with pytest.raises(NotAllowed, match=why):
        run(made)


def test_networks() -> None:
    made = task()
    made.container.docker.network = DOCKER.NONE
    assert "--network=none" in run(made)
    made.container.docker.network = DOCKER.USER
    with pytest.raises(NotAllowed, match="'' of the container is not a name of a network"):
        run(made)
    made.container.network_infos.add(name="host --privileged")
    with pytest.raises(NotAllowed, match="is not a name of a network"):
        run(made)
    made.container.network_infos[0].name = "team-a"
    assert "--network=team-a" in run(made)


@pytest.mark.parametrize("key", sorted(PARAMETERS))
def test_every_harmless_parameter_is_passed_on_as_one_word(key: str) -> None:
    made = task()
    made.container.docker.parameters.add(key=key, value="a value --privileged")
    assert f"--{key}=a value --privileged" in run(made)


@pytest.mark.parametrize(
    "key",
    [
        *("privileged", "volume", "v", "mount", "device", "cap-add", "security-opt", "pid", "ipc", "userns"),
        *(
            "network",
            "net",
            "publish",
            "p",
            "memory",
            "m",
            "cpus",
            "cpu-shares",
            "pids-limit",
            "cgroup-parent",
        ),
        *(
            "runtime",
            "env-file",
            "env",
            "name",
            "entrypoint",
            "user",
            "volumes-from",
            "oom-kill-disable",
            "rm",
        ),
        *("detach", "d", "log-driver", "sysctl", "gpus", "label=x --privileged", "", "-v", "volume-driver"),
    ],
)
def test_other_parameters_are_refused_unless_the_agent_allows_them(key: str) -> None:
    made = task()
    made.container.docker.parameters.add(key=key, value="1")
    with pytest.raises(NotAllowed, match="is not allowed on this agent"):
        run(made)
    assert f"--{key}=1" in run(made, allowed=Allowed(frozenset({key})))


def test_privileges_have_to_be_allowed() -> None:
    made = task()
    made.container.docker.privileged = True
    with pytest.raises(NotAllowed, match="privileged containers are not allowed"):
        run(made)
    assert "--privileged" in run(made, allowed=Allowed(privileged=True))


@pytest.mark.parametrize("image", ["", "--privileged"])
def test_an_image_is_a_name(image: str) -> None:
    made = task()
    made.container.docker.image = image
    with pytest.raises(NotAllowed, match="is not the name of an image"):
        run(made)


def test_the_image_of_either_containerizer() -> None:
    made = mesos.TaskInfo()
    assert image_of(made) is None
    made.container.mesos.image.docker.name = "other:2"
    assert image_of(made) == "other:2"


def test_volumes() -> None:
    container = mesos.ContainerInfo()
    container.volumes.add(mode=mesos.Volume.RO, container_path="/etc/in", host_path="/etc/on")
    container.volumes.add(mode=mesos.Volume.RW, container_path="data", host_path="kept")
    third = container.volumes.add(mode=mesos.Volume.RW, container_path="/empty")
    third.source.type, third.source.sandbox_path.path = SOURCE.SANDBOX_PATH, "scratch"
    fourth = container.volumes.add(mode=mesos.Volume.RO, container_path="/more")
    fourth.source.type, fourth.source.host_path.path = SOURCE.HOST_PATH, "/srv"
    container.volumes.add(mode=mesos.Volume.RO, container_path="/x").source.type = SOURCE.SECRET
    assert list(volumes(container, "/sandbox")) == [
        Mount("/etc/on", "/etc/in", read_only=True),
        Mount("/sandbox/kept", f"{SANDBOX}/data"),
        Mount("/sandbox/scratch", "/empty"),
        Mount("/srv", "/more", read_only=True),
    ]


def test_volumes_that_cannot_be() -> None:
    for path in ("", "../up", "/a/../b"):
        with pytest.raises(NotAllowed, match="is not a path"):
            inside(path)
        container = mesos.ContainerInfo()
        container.volumes.add(mode=mesos.Volume.RW, container_path="/in", host_path=path)
        with pytest.raises(NotAllowed, match="is not a path"):
            list(volumes(container, "/sandbox"))
    container = mesos.ContainerInfo()
    parent = container.volumes.add(mode=mesos.Volume.RW, container_path="/in")
    parent.source.type = SOURCE.SANDBOX_PATH
    parent.source.sandbox_path.type, parent.source.sandbox_path.path = SOURCE.SandboxPath.PARENT, "x"
    with pytest.raises(NotAllowed, match="own sandbox"):
        list(volumes(container, "/sandbox"))
    parent.source.type = SOURCE.CSI_VOLUME
    with pytest.raises(NotAllowed, match="CSI_VOLUME are not run"):
        list(volumes(container, "/sandbox"))
    with pytest.raises(NotAllowed, match="has a colon"):
        run(task(), Placed("mesos-c", "/e", (Mount("/a", "/b:/etc"),)))


def test_variables_do_not_show_on_the_command_line() -> None:
    text, others = split_environment({"B": "1 2", "A": "#x=y", "PEM": "a\nb"}, {"PATH": "/bin"})
    assert (text, others) == ("A=#x=y\nB=1 2\n", {"PEM": "a\nb"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATH", "a\nb"),
        ("DOCKER_HOST", "a\nb"),
        ("https_proxy", "a\nb"),
        ("A B\n", "1"),
        ("", "1"),
        ("#a", "1"),
    ],
)
def test_variables_that_docker_itself_would_take_are_refused(name: str, value: str) -> None:
    with pytest.raises(NotAllowed):
        split_environment({name: value}, {"PATH": "/bin"})


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (b"docker: Error response from daemon: port is taken\n\nRun 'docker run --help'\n", "port is taken"),
        (b"docker: unknown flag\nSee 'docker run --help'.\n", "unknown flag"),
        (b"a program's own words\n", ""),
        (b"", ""),
    ],
)
def test_why_docker_did_not_run_it(written: bytes, why: str) -> None:
    found = why_not_run(written)
    assert found.endswith(why) and bool(found) == bool(why)


@pytest.fixture
def place(tmp_path: Path) -> RunLocation:
    Layout(tmp_path).make()
    (tmp_path / "sandbox").mkdir()
    return RunLocation("S", "F", "c", tmp_path / "sandbox")


def test_a_container_has_its_own_variables_only(
    tmp_path: Path, place: RunLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///engine")
    made = task(value="true")
    for name, value in (("PATH", "/opt"), ("DOCKER_HOST", "tcp://evil"), ("TOKEN", "hidden1")):
        made.command.environment.variables.add(name=name, value=value)
    volume = made.container.volumes.add(mode=mesos.Volume.RW, container_path="/scratch")
    volume.source.type, volume.source.sandbox_path.path = SOURCE.SANDBOX_PATH, "scratch"
    layout = Layout(tmp_path)
    made.labels.labels.add(key="peloton.members_file", value="PELOTON_MEMBERS_FILE")
    found = DockerTasks(layout, NOTHING, Wanted(), Allowed()).spec(made, place, None)
    assert found["env"]["DOCKER_HOST"] == "unix:///engine" and "TOKEN" not in found["env"]
    assert found["env"]["PATH"] != "/opt" and "hidden1" not in " ".join(found["argv"])
    file = layout.secrets_of("c") / "environment"
    lines = file.read_text().splitlines()
    assert file.stat().st_mode & 0o777 == 0o600
    assert {"PATH=/opt", "TOKEN=hidden1", f"MESOS_SANDBOX={SANDBOX}", "MESOS_CONTAINER_NAME=mesos-c"} <= {
        *lines
    }
    assert not any(line.startswith("HOME=") for line in lines)
    assert f"PELOTON_MEMBERS_FILE={SANDBOX}/peloton-members" in lines
    assert (place.sandbox / "scratch").is_dir()


@pytest.mark.parametrize("path", ["/", "{}", "{}/meta"])
def test_a_volume_does_not_show_what_isolation_hides(tmp_path: Path, place: RunLocation, path: str) -> None:
    made = task(value="true")
    made.container.volumes.add(mode=mesos.Volume.RO, container_path="/in", host_path=path.format(tmp_path))
    hiding = DockerTasks(Layout(tmp_path), Isolation(hidden=(str(tmp_path),)), Wanted(), Allowed())
    with pytest.raises(NotAllowed, match="isolated tasks are not to see"):
        hiding.spec(made, place, None)
    assert DockerTasks(Layout(tmp_path), NOTHING, Wanted(), Allowed()).spec(made, place, None)


def test_commands_beside_it_are_executed_inside(tmp_path: Path, place: RunLocation) -> None:
    companions = Companions(Layout(tmp_path), NOTHING, lambda _: True)
    check = mesos.CommandInfo(shell=False, value="ls", arguments=["ls", "-l"])
    argv = ["docker", "exec", "mesos-c", "ls", "-l"]
    assert companions.command(task(), place, check) == ("docker", argv)
    options = [f"--env={SESSION_VARIABLE}=c.s", "--interactive"]
    argv = ["docker", "exec", *options, "mesos-c", "ls", "-l"]
    assert companions.command(task(), place, check, session="c.s") == ("docker", argv)
    _, argv = companions.command(task(), place, check, True, "c.s")
    assert argv[-9:] == ["docker", "docker", "exec", *options, "--tty", "mesos-c", "ls", "-l"]
