"""Agents as processes: what outlives them, what ends with them, limits, files, and bad input."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from minicluster.mesos.agent.cleanup import kill_tasks
from minicluster.mesos.agent.docker_engine import docker_answers
from minicluster.mesos.common.process_identity import start_of
from tests.contract.mesos.client import Wire, render
from tests.contract.mesos.cluster import Processes
from tests.contract.mesos.framework import Framework, eventually, get

PATIENCE_SECONDS = 60.0
ENDS = ("TASK_FINISHED", "TASK_FAILED", "TASK_KILLED", "TASK_LOST")


class Cluster:
    """A master, an agent and a framework."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self.work_dir = processes.root / "agent"
        self.master_port = 0
        self.agent_port = 0
        self.agent_id = ""
        self.framework: Framework

    async def start_master(self) -> None:
        """At the port and with the registry of before."""
        at = (f"--port={self.master_port}", f"--work-dir={self.processes.root / 'master'}")
        master = await self.processes.start("master", "master", *at, "--allocation-interval=0.05")
        self.master_port = (await master.wait_ready())["port"]

    async def change_masters(self) -> None:
        """Kill the master; the next one knows which agents there are, and learns the rest from them."""
        await self.processes.signal("master", signal.SIGKILL)
        self.framework.close()
        await self.start_master()
        self.framework = await Framework.subscribe(self.master_port, self.framework.id)

    async def start_agent(self, *flags: str) -> None:
        self.processes.work_dirs.add(self.work_dir)
        at = ("--master", f"127.0.0.1:{self.master_port}", "--port", str(self.agent_port))
        member = await self.processes.start("agent", "agent", *at, "--work-dir", str(self.work_dir), *flags)
        ready = await member.wait_ready()
        self.agent_port, self.agent_id = ready["port"], ready["agent_id"]

    async def kill_agent(self) -> None:
        await self.processes.signal("agent", signal.SIGKILL)

    async def stop_agent(self) -> int:
        await self.processes.signal("agent", signal.SIGTERM)
        return await asyncio.wait_for(self.processes.members["agent"].process.wait(), PATIENCE_SECONDS)

    async def refused(self, module: str, *flags: str) -> str:
        """Start a process that must refuse, and return its one line."""
        member = await self.processes.start("refused", module, *flags)
        assert await asyncio.wait_for(member.process.wait(), PATIENCE_SECONDS) == 1
        [line] = member.errors.read_text().splitlines()
        return line

    def sandbox(self, task_id: str) -> Path:
        executors = self.work_dir / "slaves" / self.agent_id / "frameworks" / self.framework.id / "executors"
        return executors / task_id / "runs" / "latest"


@contextlib.asynccontextmanager
async def with_agent(root: Path, *flags: str) -> AsyncIterator[Cluster]:
    """A master, an agent with these flags, and a framework."""
    processes = Processes(root)
    made = Cluster(processes)
    try:
        await made.start_master()
        await made.start_agent(*flags)
        made.framework = await Framework.subscribe(made.master_port)
        yield made
    finally:
        if hasattr(made, "framework"):
            made.framework.close()
        await processes.stop()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with with_agent(tmp_path) as made:
        yield made


def is_gone(pid: int | str) -> bool:
    """Whether a process has ended, reaped or not."""
    return start_of(int(pid)) is None


async def test_a_task_survives_its_agent_and_its_end_is_reported(cluster: Cluster) -> None:
    framework, go = cluster.framework, cluster.processes.root / "go"
    await framework.launch("one", f"until [ -e {go} ]; do sleep 0.02; done; exit 0")
    await framework.launch("two", f"until [ -e {go} ]; do sleep 0.02; done; sleep 600")
    for _ in range(2):
        await framework.until("TASK_RUNNING")
    before = cluster.agent_id
    await cluster.kill_agent()
    go.touch()
    [exit_file] = await eventually(lambda: list(cluster.work_dir.glob("meta/exits/*.json")))
    assert json.loads(exit_file.read_text())["status"] == 0
    await cluster.start_agent()
    assert cluster.agent_id == before
    status = await framework.until(*ENDS)
    assert (status["task_id"]["value"], status["state"]) == ("one", "TASK_FINISHED")
    await framework.call("KILL", kill={"task_id": {"value": "two"}})
    while (status := await framework.until(*ENDS))["task_id"]["value"] == "one":
        pass  # what is pending at a re-registration comes twice
    assert status["state"] == "TASK_KILLED"


async def test_an_agent_that_was_stopped_is_a_new_agent_and_its_tasks_are_lost(cluster: Cluster) -> None:
    framework = cluster.framework
    await framework.launch("one", "sleep 600")
    await framework.until("TASK_RUNNING")
    record = json.loads(next(cluster.work_dir.glob("meta/pids/*.json")).read_text())
    before = cluster.agent_id
    assert await cluster.stop_agent() == 0
    status = await framework.until(*ENDS)
    assert (status["state"], status["reason"]) == ("TASK_LOST", "REASON_AGENT_REMOVED")
    assert is_gone(record["task"]["pid"])
    assert list(cluster.work_dir.glob("meta/pids/*")) == []
    await cluster.start_agent("--attributes", "rack:r9")
    assert cluster.agent_id != before
    offer = (await framework.event("OFFER"))["offer"]
    while offer["agent_id"]["value"] != cluster.agent_id:
        offer = (await framework.event("OFFER"))["offer"]
    assert offer["attributes"] == [{"name": "rack", "type": "TEXT", "text": {"value": "r9"}}]


async def test_a_killed_agent_may_not_come_back_with_other_resources(cluster: Cluster) -> None:
    await cluster.kill_agent()
    at = ("--master", f"127.0.0.1:{cluster.master_port}", "--port", "0", "--work-dir", str(cluster.work_dir))
    line = await cluster.refused("agent", *at, "--resources", "cpus:1;mem:64")
    assert line.startswith("agent: --resources changed") and "cpus:4" in line and "cpus:1" in line


@pytest.mark.parametrize("lost", ["meta/agent.json", "meta/runs", "meta", "."])
async def test_an_agent_that_lost_its_memory_ends_its_tasks(cluster: Cluster, lost: str) -> None:
    """Nobody else knows of them: they would run until they end by themselves."""
    framework = cluster.framework
    await framework.launch("one", "setsid sleep 601 & echo $! > detached; sleep 602")
    await framework.until("TASK_RUNNING")
    detached = await eventually(lambda: _read(cluster.sandbox("one") / "detached"))
    record = json.loads(next(cluster.work_dir.glob("meta/pids/*.json")).read_text())
    stranger = await asyncio.create_subprocess_exec(
        "sleep", "603", env={"MESOS_SANDBOX": f"{cluster.work_dir}2/slaves/x", "MESOS_CONTAINER_ID": "c"}
    )
    await cluster.kill_agent()
    gone = cluster.work_dir / lost
    if gone.is_dir():
        await asyncio.to_thread(shutil.rmtree, gone)
    else:
        gone.unlink()
    try:
        await cluster.start_agent()
        await eventually(lambda: all(map(is_gone, (record["task"]["pid"], detached))))
        await eventually(lambda: is_gone(record["supervisor"]["pid"]))
        assert not is_gone(stranger.pid), "the task of another agent"
    finally:
        stranger.kill()
        await stranger.wait()


async def test_tasks_of_a_dead_agent_can_be_ended(cluster: Cluster) -> None:
    framework = cluster.framework
    await framework.launch("one", "setsid sleep 601 & echo $! > detached; sleep 602")
    await framework.until("TASK_RUNNING")
    detached = await eventually(lambda: _read(cluster.sandbox("one") / "detached"))
    record = json.loads(next(cluster.work_dir.glob("meta/pids/*.json")).read_text())
    await cluster.kill_agent()
    assert os.getpgid(record["task"]["pid"]) == record["task"]["pid"]
    assert await asyncio.to_thread(kill_tasks, cluster.work_dir) == 1
    assert all(map(is_gone, (record["task"]["pid"], record["supervisor"]["pid"], detached)))
    assert await asyncio.to_thread(kill_tasks, cluster.work_dir) == 0


def _read(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


async def test_a_recycled_pid_is_not_killed(tmp_path: Path) -> None:
    bystander = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    (tmp_path / "meta" / "pids").mkdir(parents=True)
    me = {"pid": bystander.pid, "start": "1"}
    record = {"container": "c", "supervisor": me, "task": me, "after": None}
    (tmp_path / "meta" / "pids" / "c.json").write_text(json.dumps(record))
    assert kill_tasks(tmp_path) == 0
    assert bystander.returncode is None
    bystander.kill()
    await bystander.wait()


async def test_a_task_over_its_memory_fails_with_the_reason(cluster: Cluster) -> None:
    await cluster.framework.launch(
        "hungry", "x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo done", mem=16
    )
    status = await cluster.framework.until(*ENDS)
    assert (status["state"], status["reason"]) == ("TASK_FAILED", "REASON_CONTAINER_LIMITATION_MEMORY")
    assert status["message"].startswith("Memory limit exceeded: Requested: 32MB")
    assert status["limitation"]["resources"][0]["scalar"]["value"] == 16


async def test_environment_and_uris(cluster: Cluster) -> None:
    packed = cluster.processes.root / "packed.tar.gz"
    (cluster.processes.root / "inner").write_text("inside")
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(cluster.processes.root / "inner", arcname="inner")
    more = {
        "uris": [
            {"value": f"file://{packed}"},
            {"value": str(packed), "extract": False, "output_file": "copy"},
        ],
        "environment": {"variables": [{"name": "GREETING", "value": "hello"}]},
    }
    command = "cat inner; echo; echo $GREETING; ls copy; echo $MESOS_SANDBOX"
    await cluster.framework.launch("fetched", command, command=more)
    assert (await cluster.framework.until(*ENDS))["state"] == "TASK_FINISHED"
    sandbox = cluster.sandbox("fetched").resolve()
    assert (sandbox / "stdout").read_text().split() == ["inside", "hello", "copy", str(sandbox)]


async def test_an_agent_reports_its_flags_and_metrics(cluster: Cluster) -> None:
    await cluster.framework.launch("one", "sleep 600")
    await cluster.framework.until("TASK_RUNNING")
    figures = json.loads((await get(cluster.agent_port, "/metrics/snapshot")).body)
    wanted = {"tasks_running": 1.0, "tasks_staging": 0.0, "executors_running": 1.0, "registered": 1.0}
    wanted |= {"cpus_total": 4.0, "cpus_used": 0.1, "cpus_percent": 0.025, "mem_used": 32.0}
    assert {name: figures[f"slave/{name}"] for name in wanted} == wanted
    flags = json.loads((await get(cluster.agent_port, "/slave(1)/flags")).body)["flags"]
    assert flags["work_dir"] == str(cluster.work_dir) and flags["images"] == "refuse"


DOCKER = {"type": "DOCKER", "docker": {"image": "no.such.registry/image:1"}}
IMAGE = {
    "type": "MESOS",
    "mesos": {"image": {"type": "DOCKER", "docker": {"name": "no.such.registry/image:1"}}},
}


@pytest.mark.parametrize(
    ("container", "reason", "message"),
    [
        (DOCKER, "REASON_EXECUTOR_TERMINATED", "Abnormal executor termination: unknown container"),
        (
            IMAGE,
            "REASON_CONTAINER_LAUNCH_FAILED",
            "Failed to launch container: Unsupported container image type: DOCKER",
        ),
    ],
)
async def test_an_image_is_refused_by_an_agent_without_a_containerizer(
    cluster: Cluster, container: dict[str, Any], reason: str, message: str
) -> None:
    await cluster.framework.launch("one", "true", container=container)
    status = await cluster.framework.update()
    assert (status["state"], status["source"]) == ("TASK_FAILED", "SOURCE_AGENT")
    said, _, remedy = status["message"].partition("; ")
    assert (status["reason"], said) == (reason, message)
    assert "--images docker" in remedy


async def test_a_flag_lets_an_image_run_as_a_plain_process(tmp_path: Path) -> None:
    async with with_agent(tmp_path, "--images=plain") as cluster:
        await cluster.framework.launch("one", "echo ran", container=DOCKER)
        assert (await cluster.framework.until(*ENDS))["state"] == "TASK_FINISHED"
        assert (cluster.sandbox("one") / "stdout").read_text() == "ran\n"
        assert "this is a plain process" in (cluster.sandbox("one") / "stderr").read_text()


async def test_a_member_of_a_gang_without_a_shell_has_the_list_in_a_file(tmp_path: Path) -> None:
    command = {
        "shell": False,
        "arguments": ["env"],
        "environment": {
            "variables": [
                {"name": "PELOTON_MEMBERS_PART_0", "value": "h1:31000,h"},
                {"name": "PELOTON_MEMBERS_PART_1", "value": "2:31001,-,[::1]:31002"},
                {"name": "HYDRA_HOST_FILE", "value": "mine"},
            ]
        },
    }
    asked = [
        {"key": "peloton.members_file", "value": "PELOTON_MEMBERS_FILE"},
        {"key": "peloton.hostfile", "value": "PELOTON_HOSTFILE,HYDRA_HOST_FILE"},
    ]
    async with with_agent(tmp_path, "--images=plain") as cluster:
        await cluster.framework.launch(
            "one", "/usr/bin/env", command=command, labels={"labels": asked}, container=DOCKER
        )
        assert (await cluster.framework.until(*ENDS))["state"] == "TASK_FINISHED"
        sandbox = cluster.sandbox("one")
        lines = (sandbox / "stdout").read_text().splitlines()
        found = dict(line.split("=", 1) for line in lines if "=" in line)
        members, hosts = sandbox / "peloton-members", sandbox / "peloton-hostfile"
        told = (found["PELOTON_MEMBERS_FILE"], found["PELOTON_HOSTFILE"])
        assert told == tuple(f"{found['MESOS_SANDBOX']}/{each.name}" for each in (members, hosts))
        assert members.read_text() == "h1:31000\nh2:31001\n-\n[::1]:31002\n"
        assert hosts.read_text() == "h1\nh2\n-\n[::1]\n"
        assert found["HYDRA_HOST_FILE"] == "mine"
        assert "PELOTON_MEMBERS_PART_0" not in found


async def test_docker_must_answer_to_run_images(tmp_path: Path) -> None:
    if await docker_answers():
        pytest.skip("a docker engine answers here")
    async with with_agent(tmp_path) as cluster:
        at = ("--master", f"127.0.0.1:{cluster.master_port}", "--port=0", f"--work-dir={tmp_path / 'other'}")
        line = await cluster.refused("agent", *at, "--images=docker")
        assert line == "agent: --images docker: no docker engine answers; start one, or take refuse or plain"


async def test_a_task_that_is_being_fetched_is_not_lost_with_its_master(cluster: Cluster) -> None:
    """If it were said to be gone, another run of it would be launched, and then there would be two."""
    typing, terminal = os.openpty()
    slow = {"uris": [{"value": os.ttyname(terminal), "extract": False, "output_file": "typed"}]}
    agent_id = await cluster.framework.launch("one", "cat typed; sleep 600", command=slow)
    await eventually(lambda: list(cluster.work_dir.glob("meta/runs/*.log")))
    await cluster.change_masters()
    asked = {"tasks": [{"task_id": {"value": "one"}, "agent_id": {"value": agent_id}}]}
    async with asyncio.timeout(PATIENCE_SECONDS):
        while all(event["type"] != "UPDATE" for event in cluster.framework.stream.waiting):
            await cluster.framework.call("RECONCILE", reconcile=asked)  # no answer until the agent is back
            await asyncio.sleep(0.02)
    assert (await cluster.framework.update())["state"] == "TASK_STAGING"
    os.write(typing, b"typed\n\x04\x04")
    await cluster.framework.until("TASK_RUNNING")
    os.close(typing)
    os.close(terminal)


async def test_nothing_outside_of_the_sandboxes_is_served(cluster: Cluster) -> None:
    command = "ln -s /etc out; ln -s /etc/hostname file; echo x > own; ln -s own inner"
    await cluster.framework.launch("one", command)
    await cluster.framework.until("TASK_FINISHED")
    virtual = f"/frameworks/{cluster.framework.id}/executors/one/runs/latest"
    real = str(cluster.sandbox("one").resolve())
    for path in (virtual, real):
        for inside in ("own", "inner"):
            assert (await get(cluster.agent_port, f"/files/download?path={path}/{inside}")).body == b"x\n"
        for outside in ("out", "out/passwd", "file"):
            for action in ("browse", "read", "download"):
                reply = await get(cluster.agent_port, f"/files/{action}?path={path}/{outside}&offset=0")
                assert reply.status == 404, (action, outside)
        assert (await get(cluster.agent_port, f"/files/read?path={path}/../x")).status == 400
    for path in ("/etc/passwd", "/", str(cluster.work_dir / "meta"), "/frameworks/../../..", "/slaves"):
        assert (await get(cluster.agent_port, f"/files/browse?path={path}")).status == 404


async def test_state_names_each_sandbox(cluster: Cluster) -> None:
    await cluster.framework.launch("one", "true")
    await cluster.framework.until("TASK_FINISHED")
    state: dict[str, Any] = {"completed_frameworks": []}
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not state["completed_frameworks"]:
            state = json.loads((await get(cluster.agent_port, "/state")).body)
    [executor] = state["completed_frameworks"][0]["completed_executors"]
    assert executor["id"] == "one"
    assert executor["directory"] == str(cluster.sandbox("one").resolve())


async def test_health_checks_report_the_first_success_and_kill_after_failures(cluster: Cluster) -> None:
    check = {
        "type": "COMMAND",
        "command": {"value": "test ! -e bad"},
        "delay_seconds": 0.0,
        "interval_seconds": 0.05,
        "grace_period_seconds": 0.0,
        "consecutive_failures": 2,
    }
    await cluster.framework.launch("sick", "sleep 600", health_check=check)
    told = []
    while (status := await cluster.framework.update())["state"] not in ENDS:
        if "healthy" in status or status["state"] == "TASK_KILLING":
            told.append((status["state"], status.get("healthy")))
        if told == [("TASK_RUNNING", True)]:
            (cluster.sandbox("sick") / "bad").touch()
    running = [("TASK_RUNNING", True), ("TASK_RUNNING", False), ("TASK_RUNNING", False)]
    assert told == [*running, ("TASK_KILLING", None)]
    assert (status["state"], status["healthy"]) == ("TASK_KILLED", False)


async def test_a_task_is_told_to_end_by_its_signal_and_its_end_says_when_it_has_saved(
    cluster: Cluster,
) -> None:
    labels = {"peloton.stop_signal": "SIGUSR1", "peloton.checkpoint_file": "c/last"}
    command = "trap 'touch c/last; exit 0' USR1; mkdir c; touch ready; while :; do sleep 0.05; done"
    wanted = {"labels": [{"key": key, "value": value} for key, value in labels.items()]}
    await cluster.framework.launch("saves", command, labels=wanted)
    while (status := await cluster.framework.update())["state"] != "TASK_RUNNING":
        assert "labels" not in status
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (cluster.sandbox("saves") / "ready").exists():  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.01)
    await cluster.framework.call("KILL", kill={"task_id": {"value": "saves"}})
    while (status := await cluster.framework.update())["state"] not in ENDS:
        pass
    assert status["state"] == "TASK_KILLED" and status["message"] == "Command exited with status 0"
    [label] = status["labels"]["labels"]
    saved = (cluster.sandbox("saves") / "c" / "last").stat().st_mtime
    assert label["key"] == "peloton.saved_at" and abs(float(label["value"]) - saved) < 0.01


async def test_bad_flags_are_refused_in_one_line(cluster: Cluster) -> None:
    root = cluster.processes.root
    at = ("--master", f"127.0.0.1:{cluster.master_port}", "--work-dir", str(root / "other"))
    taken = await cluster.refused("agent", *at, "--port", str(cluster.agent_port))
    assert "Address already in use" in taken and str(cluster.agent_port) in taken
    assert "'four' is no number" in await cluster.refused(
        "agent", *at, "--port", "0", "--resources", "cpus:four"
    )
    wrong = await cluster.refused("agent", *at, "--port", "0", "--attributes", "x:{a,b}")
    assert "Bad type for attribute 'x'" in wrong
    assert "is not HOST:PORT" in await cluster.refused("agent", "--master", "here", *at[2:], "--port", "0")
    slow = await cluster.refused("agent", *at, "--port", "0", "--launch-seconds", "3-1")
    assert "'3-1' should be MIN-MAX in seconds" in slow
    (root / "file").touch()
    unwritable = await cluster.refused("master", "--port", "0", "--work-dir", str(root / "file"))
    assert "cannot be written to" in unwritable
    ours = ("--port", str(cluster.master_port), "--work-dir", str(root / "other-master"))
    assert "Address already in use" in await cluster.refused("master", *ours)
    free = ("--port", "0", "--work-dir", str(root / "other-master"))
    assert "is not zk://" in await cluster.refused("master", *free, "--zk", "127.0.0.1:2181/mesos")
    assert "name PEM files" in await cluster.refused("master", *free, "--tls-certificate", str(root / "file"))


SUBSCRIBE = {"type": "SUBSCRIBE", "subscribe": {"framework_info": {"user": "u", "name": "n"}}}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, "application/json"),
        ({"Accept": "*/*"}, "application/json"),
        ({"Accept": "application/x-protobuf"}, "application/x-protobuf"),
        ({"Accept": "application/x-protobuf, application/json;q=0.5"}, "application/json"),
        ({"Accept": "application/json", "Accept-Encoding": "gzip"}, "application/json"),
        ({"Accept": "application/json", "Connection": "close"}, "application/json"),
        ({"Accept": "application/json", "Expect": "100-continue"}, "application/json"),
    ],
)
async def test_the_type_of_a_stream_follows_accept_alone(
    cluster: Cluster, headers: dict[str, str], expected: str
) -> None:
    wire = await Wire.open("127.0.0.1", cluster.master_port)
    body = json.dumps(SUBSCRIBE).encode()
    sent = {"Content-Type": "application/json", **headers}
    wire.send("POST", render("POST", "/api/v1/scheduler", sent, body, "x"))
    reply = await wire.reply()
    assert (reply.status, reply.headers["Content-Type"]) == (200, expected)
    assert reply.headers["Transfer-Encoding"] == "chunked"
    first = await asyncio.wait_for(wire.record(), PATIENCE_SECONDS)
    assert first is not None and (b"SUBSCRIBED" in first) == (expected == "application/json")
    wire.close()


async def test_data_that_is_not_http_ends_only_its_connection(cluster: Cluster) -> None:
    for junk in (b"hello\r\n\r\n", b"\x16\x03\x01\x02\x00", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"):
        reader, writer = await asyncio.open_connection("127.0.0.1", cluster.master_port)
        writer.write(junk)
        assert await asyncio.wait_for(reader.read(), PATIENCE_SECONDS) == b""
        writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", cluster.master_port)
    writer.write(b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 200_000)
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), PATIENCE_SECONDS) == b""
    writer.close()
    assert (await get(cluster.master_port, "/health")).status == 200


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ({"value": "echo", "arguments": ["echo", "batch"]}, "batch\n"),
        ({"value": "echo", "arguments": ["batch"]}, "\n"),
        ({"value": "/bin/echo", "arguments": ["called", "one", "two"]}, "one two\n"),
        (
            {"value": "/bin/cat", "arguments": ["renamed", "/proc/self/cmdline"]},
            "renamed\0/proc/self/cmdline\0",
        ),
        ({"value": "pwd", "arguments": []}, None),
    ],
)
async def test_a_command_without_shell_is_a_file_and_its_whole_argv(
    cluster: Cluster, command: dict[str, Any], printed: str | None
) -> None:
    await cluster.framework.launch("one", "", command={"shell": False, **command})
    status = await cluster.framework.until(*ENDS)
    assert status["state"] == "TASK_FINISHED", (cluster.sandbox("one") / "stderr").read_text()
    expected = f"{cluster.sandbox('one').resolve()}\n" if printed is None else printed
    assert (cluster.sandbox("one") / "stdout").read_text() == expected


async def test_a_file_is_looked_for_on_the_path_of_the_task(cluster: Cluster) -> None:
    program = cluster.processes.root / "own-program"
    program.write_text("#!/bin/sh\necho found $1\n")
    program.chmod(0o755)
    path = {"variables": [{"name": "PATH", "value": str(cluster.processes.root)}]}
    command = {
        "shell": False,
        "value": "own-program",
        "arguments": ["own-program", "it"],
        "environment": path,
    }
    await cluster.framework.launch("one", "", command=command)
    assert (await cluster.framework.until(*ENDS))["state"] == "TASK_FINISHED"
    assert (cluster.sandbox("one") / "stdout").read_text() == "found it\n"


async def test_a_launch_takes_its_time_and_may_be_killed_meanwhile(tmp_path: Path) -> None:
    async with with_agent(tmp_path, "--launch-seconds=4-4.1", "--concurrent-launches=1") as cluster:
        framework, loop = cluster.framework, asyncio.get_running_loop()
        asked = loop.time()
        await framework.launch("first", "sleep 600")
        await framework.launch("second", "sleep 600")
        await framework.call("KILL", kill={"task_id": {"value": "second"}})
        killed = await framework.update()
        assert (killed["task_id"]["value"], killed["state"]) == ("second", "TASK_KILLED")
        assert killed["reason"] == "REASON_TASK_KILLED_DURING_LAUNCH"
        assert not list(cluster.work_dir.glob("meta/pids/*.json"))
        starting = await framework.update()
        assert (starting["task_id"]["value"], starting["state"]) == ("first", "TASK_STARTING")
        assert loop.time() - asked >= 4


async def test_the_rest_of_an_agent_is_offered_before_the_launch_is_reported(tmp_path: Path) -> None:
    async with with_agent(tmp_path, "--launch-seconds=4") as cluster:
        framework = cluster.framework
        await framework.launch("one", "sleep 600")
        assert (await framework.event("UPDATE"))["update"]["status"]["state"] == "TASK_STARTING"
        rest = [event["offer"] for event in framework.stream.waiting if event["type"] == "OFFER"]
        assert [amounts(offer)["cpus"] for offer in rest] == [3.9]


async def test_freed_resources_are_a_separate_offer_while_the_rest_is_held(cluster: Cluster) -> None:
    go = cluster.processes.root / "go"
    await cluster.framework.launch("one", f"until [ -e {go} ]; do sleep 0.02; done")
    rest = (await cluster.framework.event("OFFER"))["offer"]
    go.touch()
    await cluster.framework.until("TASK_FINISHED")
    freed = (await cluster.framework.event("OFFER"))["offer"]
    assert (amounts(rest)["cpus"], amounts(freed)) == (3.9, {"cpus": 0.1, "mem": 32.0})
    assert rest["agent_id"] == freed["agent_id"] and rest["id"] != freed["id"]


def amounts(offer: dict[str, Any]) -> dict[str, float]:
    """The scalars of an offer, by name."""
    return {each["name"]: each["scalar"]["value"] for each in offer["resources"] if "scalar" in each}


async def test_an_executor_that_does_not_register_in_time_has_failed(tmp_path: Path) -> None:
    flags = ("--executor-starts-per-second=0.1", "--executor-registration-timeout=4")
    async with with_agent(tmp_path, *flags) as cluster:
        framework = cluster.framework
        await framework.launch("first", "sleep 600")
        await framework.until("TASK_RUNNING")
        await framework.launch("second", "sleep 600")
        status = await framework.update()
        assert (status["task_id"]["value"], status["state"]) == ("second", "TASK_FAILED")
        assert status["reason"] == "REASON_EXECUTOR_REGISTRATION_TIMEOUT"
        assert (status["source"], status["message"]) == (
            "SOURCE_AGENT",
            "Executor did not register within 4secs",
        )
        assert len(list(cluster.work_dir.glob("meta/pids/*.json"))) == 1


async def test_the_usage_of_a_task_is_told_in_mesos_form(cluster: Cluster) -> None:
    assert json.loads((await get(cluster.agent_port, "/containers")).body) == []
    grown = "x=$(head -c 12000000 /dev/zero | tr '\\0' x); touch grown; sleep 600"
    await cluster.framework.launch("one", grown, mem=64)
    await cluster.framework.until("TASK_RUNNING")
    await eventually(lambda: (cluster.sandbox("one") / "grown").exists())
    [container] = json.loads((await get(cluster.agent_port, "/containers")).body)
    assert (container["executor_id"], container["framework_id"]) == ("one", cluster.framework.id)
    assert container["status"]["container_id"] == {"value": container["container_id"]}
    used = container["statistics"]
    assert (used["cpus_limit"], used["mem_limit_bytes"]) == (0.1, 64 << 20) and used["processes"] > 0
    # The kernel counts in ticks: so short a command may have none in user mode.
    seconds = used["cpus_user_time_secs"] + used["cpus_system_time_secs"]
    assert used["mem_rss_bytes"] >= 12_000_000 and seconds > 0
    [monitored] = json.loads((await get(cluster.agent_port, "/monitor/statistics")).body)
    assert monitored.keys() == {"executor_id", "executor_name", "framework_id", "source", "statistics"}
    if not (cluster.work_dir / "meta" / "cgroup").exists():
        pytest.skip("the peak is not known without cgroups, which cannot be made here")
    assert 12_000_000 <= used["mem_peak_bytes"] <= 64 << 20
