"""Tasks with images on our own agents, by a real engine."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from peloton.client.agent_calls import command_info
from peloton.client.agent_session import AgentSession
from peloton.client.sandbox import Agent
from tests.contract.mesos.framework import eventually, get
from tests.contract.mesos.test_agent import ENDS, Cluster, with_agent
from tests.contract.mesos.test_isolation import processes_with
from tests.servers.engine import Engine
from tests.servers.engine.running import ROOT, own_engine
from tools.images import images

IMAGE = images(ROOT)["PYTHON_IMAGE"]
SAID_WITHOUT_BRIDGE = "network bridge not found"
"""As docs/operations.md has it."""
FLAGS = ("--images=docker", "--isolation=none")


@pytest.fixture
async def cluster(
    engine: Engine, bases: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Cluster]:
    """A master, an agent that runs images by the engine, and a framework."""
    for name, value in engine.environment.items():
        monkeypatch.setenv(name, value)
    before = names(engine)
    async with with_agent(tmp_path, *FLAGS) as made:
        yield made
    await eventually(lambda: names(engine) <= before)


def names(engine: Engine) -> set[str]:
    """The containers that the engine has."""
    return set(engine.must("ps", "--all", "--format", "{{.Names}}").split())


def docker(**more: Any) -> dict[str, Any]:
    volumes = more.pop("volumes", [])
    infos = more.pop("network_infos", [])
    made = {"type": "DOCKER", "docker": {"image": IMAGE, **more}}
    return made | ({"volumes": volumes} if volumes else {}) | ({"network_infos": infos} if infos else {})


async def ended(cluster: Cluster) -> dict[str, Any]:
    return await cluster.framework.until(*ENDS)


async def test_a_task_runs_in_its_image_with_its_files_and_variables(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "file").write_text("from the host\n")
    mounts = [
        {"mode": "RO", "container_path": "/given", "host_path": str(tmp_path / "given")},
        {
            "mode": "RW",
            "container_path": "/scratch",
            "source": {"type": "SANDBOX_PATH", "sandbox_path": {"type": "SELF", "path": "scratch"}},
        },
    ]
    variables = [{"name": "WORD", "value": "a b"}, {"name": "LINES", "value": "one\ntwo"}]
    shell = (
        "cat /given/file; touch /given/x 2>/dev/null || echo read-only; echo kept > /scratch/f; pwd; "
        'echo "$WORD" "$LINES"; . /etc/os-release; echo $ID; echo out > "$MESOS_SANDBOX/made"; '
        "echo err >&2; exit 7"
    )
    command = {"environment": {"variables": variables}}
    await cluster.framework.launch("one", shell, command=command, container=docker(volumes=mounts))
    status = await ended(cluster)
    assert (status["state"], status["message"]) == ("TASK_FAILED", "Command exited with status 7")
    sandbox = cluster.sandbox("one")
    said = (sandbox / "stdout").read_text().splitlines()
    assert said == ["from the host", "read-only", "/mnt/mesos/sandbox", "a b one", "two", "debian"]
    assert (sandbox / "stderr").read_text() == "err\n"
    assert (sandbox / "made").read_text() == "out\n" and (sandbox / "scratch" / "f").read_text() == "kept\n"
    assert not list((cluster.work_dir / "meta" / "secrets").iterdir())


async def test_a_program_with_arguments_as_a_user(cluster: Cluster) -> None:
    nobody = pwd.getpwnam("nobody")
    code = "import os, sys; print(os.getuid(), sys.argv[1:]); open(os.environ['MESOS_SANDBOX'] + '/x', 'w')"
    command = {"shell": False, "user": "nobody", "arguments": ["-c", code, "a", "b c"]}
    await cluster.framework.launch("one", "python3", command=command, container=docker())
    assert (await ended(cluster))["state"] == "TASK_FINISHED"
    assert (cluster.sandbox("one") / "stdout").read_text() == f"{nobody.pw_uid} ['a', 'b c']\n"
    assert (cluster.sandbox("one") / "x").stat().st_uid == nobody.pw_uid


async def test_a_program_of_a_mesos_container_does_not_get_its_name_as_an_argument(cluster: Cluster) -> None:
    code = "import sys; print(sys.argv[1:])"
    command = {"shell": False, "arguments": ["python3", "-c", code, "a"]}
    container = {"type": "MESOS", "mesos": {"image": {"type": "DOCKER", "docker": {"name": IMAGE}}}}
    await cluster.framework.launch("one", "python3", command=command, container=container)
    assert (await ended(cluster))["state"] == "TASK_FINISHED"
    assert (cluster.sandbox("one") / "stdout").read_text() == "['a']\n"


async def test_a_member_of_a_gang_without_a_shell_reads_the_list(cluster: Cluster) -> None:
    code = "import os; print(open(os.environ['PELOTON_MEMBERS_FILE']).read(), end='')"
    variables = [{"name": "PELOTON_MEMBERS", "value": "h1:1,h2:2"}]
    command = {"shell": False, "arguments": ["-c", code], "environment": {"variables": variables}}
    labels = {"labels": [{"key": "peloton.members_file", "value": "PELOTON_MEMBERS_FILE"}]}
    await cluster.framework.launch("one", "python3", command=command, container=docker(), labels=labels)
    assert (await ended(cluster))["state"] == "TASK_FINISHED"
    assert (cluster.sandbox("one") / "stdout").read_text() == "h1:1\nh2:2\n"


async def test_a_task_over_its_memory_is_told_the_limit_and_the_peak(cluster: Cluster) -> None:
    shell = "python3 -c \"x = bytearray(200_000_000); x[::4096] = b'x' * len(x[::4096])\"; exit $?"
    await cluster.framework.launch("hungry", shell, mem=64, container=docker())
    status = await ended(cluster)
    assert (status["state"], status["reason"]) == ("TASK_FAILED", "REASON_CONTAINER_LIMITATION_MEMORY")
    assert status["message"].startswith("Memory limit exceeded: Requested: 64MB Maximum Used: 64MB")
    assert status["limitation"]["resources"][0]["scalar"]["value"] == 64


@pytest.mark.parametrize(
    ("trap", "message"),
    [("exit 3", "Command exited with status 3"), ("", "Command terminated with signal Killed")],
)
async def test_a_kill_has_grace_and_then_no_mercy(
    cluster: Cluster, engine: Engine, trap: str, message: str
) -> None:
    grace = {"grace_period": {"nanoseconds": 60_000_000_000 if trap else 1_000_000_000}}
    shell = f"trap '{trap}' TERM; touch ready; while :; do sleep 0.1; done"
    await cluster.framework.launch("one", shell, container=docker(), kill_policy=grace)
    await cluster.framework.until("TASK_RUNNING")
    await eventually(lambda: (cluster.sandbox("one") / "ready").exists())
    await cluster.framework.call("KILL", kill={"task_id": {"value": "one"}})
    status = await ended(cluster)
    assert (status["state"], status["message"]) == ("TASK_KILLED", message)
    await eventually(lambda: not any(name.startswith("mesos-") for name in names(engine)))


async def test_an_agent_that_was_killed_finds_it_again(cluster: Cluster) -> None:
    shell = "touch begun; until [ -e go ]; do sleep 0.05; done; exit 5"
    await cluster.framework.launch("one", shell, container=docker())
    await cluster.framework.until("TASK_RUNNING")
    await eventually(lambda: (cluster.sandbox("one") / "begun").exists())
    await cluster.kill_agent()
    await cluster.start_agent(*FLAGS)
    (cluster.sandbox("one") / "go").touch()
    status = await ended(cluster)
    assert (status["state"], status["message"]) == ("TASK_FAILED", "Command exited with status 5")


@pytest.mark.parametrize(
    ("container", "why"),
    [
        (docker(privileged=True), "privileged containers are not allowed on this agent"),
        (
            docker(parameters=[{"key": "pid", "value": "host"}]),
            "the parameter 'pid' of docker is not allowed",
        ),
        (docker(port_mappings=[{"host_port": 80, "container_port": 80}]), "ports are mapped in the networks"),
        (
            docker(network="USER", network_infos=[{"name": "no-such-network"}]),
            "network no-such-network not found",
        ),
        (docker(image="127.0.0.1:1/no/such:image"), "Failed to pull image '127.0.0.1:1/no/such:image'"),
        (docker(image="127.0.0.1:1/a:b", force_pull_image=True), "Failed to pull image '127.0.0.1:1/a:b'"),
    ],
)
async def test_what_cannot_run_says_why(cluster: Cluster, container: dict[str, Any], why: str) -> None:
    await cluster.framework.launch("one", "true", container=container)
    status = await ended(cluster)
    assert (status["state"], status["reason"]) == ("TASK_FAILED", "REASON_CONTAINER_LAUNCH_FAILED")
    assert status["message"].startswith("Failed to launch container: ") and why in status["message"]


async def test_an_allowed_parameter_counts(cluster: Cluster) -> None:
    container = docker(parameters=[{"key": "read-only", "value": "true"}], network="NONE")
    shell = "touch /x 2>/dev/null || echo cannot; ls /sys/class/net"
    await cluster.framework.launch("one", shell, container=container)
    assert (await ended(cluster))["state"] == "TASK_FINISHED"
    assert (cluster.sandbox("one") / "stdout").read_text() == "cannot\nlo\n"


async def test_its_health_is_checked_inside_and_its_usage_told(cluster: Cluster) -> None:
    check = {
        "type": "COMMAND",
        "command": {"value": "test -e /inside"},
        "delay_seconds": 0,
        "interval_seconds": 0.1,
        "timeout_seconds": 20,
    }
    code = 'import time; x = b"x" * 20_000_000; print(1, flush=True); time.sleep(600)'
    shell = f"touch /inside; exec python3 -c '{code}'"
    await cluster.framework.launch("one", shell, mem=128, container=docker(), health_check=check)
    status = await cluster.framework.until("TASK_RUNNING")
    while not status.get("healthy"):
        status = await cluster.framework.until("TASK_RUNNING")
    await eventually(lambda: (cluster.sandbox("one") / "stdout").read_text() == "1\n")
    [container] = json.loads((await get(cluster.agent_port, "/containers")).body)
    used = container["statistics"]
    assert used["mem_limit_bytes"] == 128 << 20 and 20_000_000 <= used["mem_rss_bytes"] <= 128 << 20
    assert used["mem_rss_bytes"] <= used["mem_peak_bytes"] <= 128 << 20 and used["processes"] == 2


async def test_commands_run_inside_and_leave_nothing(cluster: Cluster) -> None:
    variables = [{"name": "COLOUR", "value": "green"}]
    command = {"user": "nobody", "environment": {"variables": variables}}
    await cluster.framework.launch("one", "sleep 600", command=command, container=docker())
    status = await cluster.framework.until("TASK_RUNNING")
    container = status["container_status"]["container_id"]["value"]

    async def session(
        *words: str, read: Callable[[], bytes] | None = None, size: tuple[int, int] | None = None
    ) -> tuple[int, str, str]:
        found = {"STDOUT": b"", "STDERR": b""}

        def write(stream: str, data: bytes) -> None:
            found[stream] += data

        begun = AgentSession(Agent("127.0.0.1", cluster.agent_port, timeout=60), container, size)
        code = await asyncio.to_thread(begun.run, command_info(words), write, read)
        return code, found["STDOUT"].decode(), found["STDERR"].decode()

    code, out, err = await session(". /etc/os-release; echo $ID $COLOUR; id -un; pwd; echo no >&2; exit 4")
    assert (code, out.splitlines(), err) == (4, ["debian green", "nobody", "/mnt/mesos/sandbox"], "no\n")
    pieces = iter([b"a\n", b"b\n", b""])
    assert await session("cat", "-n", read=lambda: next(pieces)) == (0, "     1\ta\n     2\tb\n", "")
    # Docker tells the size of a terminal when the command has begun.
    sized = 'for i in $(seq 600); do [ "$(stty size)" = "31 99" ] && break; sleep 0.1; done; stty size; tty'
    assert await session(sized, size=(31, 99)) == (0, "31 99\r\n/dev/pts/0\r\n", "")
    assert (await session("kill -9 $$"))[0] == 137
    code, out, err = await session("nosuchcommand", "x")
    assert code in (126, 127) and "nosuchcommand" in out + err
    mark = f"7{os.getpid()}"
    assert await session(f"sleep {mark} & echo begun") == (0, "begun\n", "")
    await eventually(lambda: not processes_with(mark))
    begun = AgentSession(Agent("127.0.0.1", cluster.agent_port, timeout=60), container)
    with pytest.raises(Left):
        await asyncio.to_thread(begun.run, command_info([f"echo begun; exec sleep {mark}"]), leave)
    await eventually(lambda: not processes_with(mark))


class Left(Exception):
    """The caller of a session goes."""


def leave(stream: str, data: bytes) -> None:
    raise Left


@pytest.mark.parametrize("network", ["BRIDGE", "USER"])
async def test_ports_are_mapped_in_a_network_of_the_engine(
    cluster: Cluster, engine: Engine, network: str
) -> None:
    if network == "BRIDGE" and "bridge" not in engine.must("network", "ls", "--format", "{{.Name}}").split():
        pytest.skip("the engine of this machine has no bridge")
    engine.must("network", "create", "tasks-check")
    try:
        port = 31000 + os.getpid() % 900
        mapping = [{"host_port": port, "container_port": 8000}]
        infos = [{"name": "tasks-check"}] if network == "USER" else []
        container = docker(network=network, network_infos=infos, port_mappings=mapping)
        ranges = {"range": [{"begin": port, "end": port}]}
        ports = [{"name": "ports", "type": "RANGES", "ranges": ranges}]
        shell = "echo served > f; exec python3 -m http.server 8000"
        await cluster.framework.launch("one", shell, container=container, more_resources=ports)
        await cluster.framework.until("TASK_RUNNING")
        async with asyncio.timeout(60):
            while not (answer := await fetched(port)):  # noqa: ASYNC110 - the server gives no notice
                await asyncio.sleep(0.1)
        assert answer == b"served\n"
        await cluster.framework.call("KILL", kill={"task_id": {"value": "one"}})
        await ended(cluster)
    finally:
        engine.docker("network", "rm", "tasks-check")


async def test_a_bridge_that_the_engine_lacks_is_told(
    engine: Engine, bases: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not engine.own:
        pytest.skip("the engine of this machine is used, not one of the tests' own")
    with own_engine("--without-bridge") as without:
        without.pulled(IMAGE)
        for name, value in without.environment.items():
            monkeypatch.setenv(name, value)
        async with with_agent(tmp_path, *FLAGS) as made:
            await made.framework.launch("one", "true", container=docker(network="BRIDGE"))
            status = await ended(made)
            assert (status["state"], status.get("reason")) == (
                "TASK_FAILED",
                "REASON_CONTAINER_LAUNCH_FAILED",
            ), status
            assert SAID_WITHOUT_BRIDGE in status["message"]


async def fetched(port: int) -> bytes:
    """The body of /f at a port; empty while nothing serves it."""
    try:
        return (await get(port, "/f")).body
    except (OSError, EOFError, ValueError):
        return b""
