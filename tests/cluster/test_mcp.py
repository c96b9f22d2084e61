"""Thirty questions about a whole cluster, answered from what the tools of `peloton mcp` say alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import TextContent

from .conftest import Harness

SECONDS = 60.0
SECRET = "hunter2-of-the-database"
SMALL_POOL = """
resources:
  - {kind: cpu, reservation: %s, limit: %s, share: 1}
  - {kind: memory, reservation: 512, limit: 1000000, share: 1}
  - {kind: disk, reservation: 4096, limit: 1000000, share: 1}
"""
TEST_POOL = """
resources:
  - {kind: cpu, reservation: 8, limit: 1000000, share: 1}
  - {kind: memory, reservation: 4096, limit: 1000000, share: 1}
  - {kind: disk, reservation: 40000, limit: 1000000, share: 1}
"""
JOB = """
name: %s
owningTeam: ana
type: BATCH
instanceCount: %d
sla: {preemptible: %s}
defaultConfig:
  resource: {cpuLimit: %s, memLimitMb: 32, diskLimitMb: 8}
  restartPolicy: {maxFailures: 0}
  command: {shell: true, value: '%s', environment: {variables: [{name: DB, value: %s}]}}
"""
SERVICE = """
name: web
owningTeam: ana
instanceCount: 2
sla: {preemptible: true, maximumUnavailableInstances: 1}
defaultSpec:
  mesosSpec: {shell: true}
  containers:
  - name: main
    resource: {cpuLimit: 0.1, memLimitMb: 32, diskLimitMb: 8}
    environment: [{name: DB, value: %s}]
    entrypoint: {value: 'echo "version %d"; sleep 600'}
"""


class Refusal(Exception):
    """What a tool refuses."""


class Tools:
    """The server as a client sees it; `said` is all that it has said."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.said: list[str] = []

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        result = await self._client.call_tool(tool, arguments)
        text = "".join(part.text for part in result.content if isinstance(part, TextContent))
        self.said += [text, json.dumps(result.structured_content)]
        if result.is_error:
            raise Refusal(text)
        return result.structured_content

    async def done(self, tool: str, **arguments: Any) -> Any:
        """Plan, and carry the plan out."""
        plan = await self(tool, **arguments)
        assert plan["token"], plan
        return await self("apply_plan", token=plan["token"])

    async def until(self, holds: Callable[[Any], bool], tool: str, **arguments: Any) -> Any:
        """Call a tool until its answer holds."""
        last: Any = None
        with anyio.move_on_after(SECONDS):
            while True:
                try:
                    if holds(last := await self(tool, **arguments)):
                        return last
                except Refusal as refusal:
                    last = refusal
                await anyio.sleep(0.1)
        raise AssertionError(f"{tool} {arguments}: {last}")


def of(rows: Any, **wanted: Any) -> Any:
    """The only row with these values."""
    (found,) = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return found


def job(name: str, instances: int, cpu: float, command: str, preemptible: str = "true") -> str:
    return JOB % (name, instances, preemptible, cpu, command, SECRET)


async def world(tools: Tools) -> None:
    """Jobs and pools that give reason to ask, all made by plans."""
    await tools.done("plan_pool_change", pool="/test", spec=TEST_POOL)
    await tools.done("plan_pool_change", pool="/small", spec=SMALL_POOL % (1, 1))
    await tools.done("plan_run", spec=job("crowd", 3, 0.5, "sleep 600", "false"), pool="/small")
    await tools.done("plan_run", spec=job("giant", 1, 100, "true"), pool="/test")
    await tools.done("plan_run", spec=job("unlucky", 1, 0.1, "echo out of luck >&2; exit 3"), pool="/test")
    await tools.done("plan_run", spec=job("greeter", 1, 0.1, "echo hello"), pool="/test")
    await tools.done("plan_run", spec=job("worker", 4, 0.1, "sleep 600"), pool="/test")
    await tools.done("plan_run", spec=SERVICE % (SECRET, 1), pool="/test", batch_size=0)
    await tools.until(lambda found: found["tasks"].get("RUNNING") == 2, "get_job", job="web")
    await tools.until(lambda found: found["tasks"].get("RUNNING") == 4, "get_job", job="worker")
    for name, state in (("unlucky", "FAILED"), ("greeter", "SUCCEEDED")):
        await tools.until(lambda found, state=state: found["state"] == state, "get_job", job=name)  # type: ignore[misc]
    await tools.until(
        lambda found: (
            {each["state"]: each["count"] for each in found["groups"]} == {"PENDING": 1, "RUNNING": 2}
        ),
        "why_job",
        job="crowd",
    )
    await tools.done("plan_pool_change", pool="/small", spec=SMALL_POOL % (0.5, 0.5))
    await tools.until(
        lambda found: of(found["pools"], path="/small")["over_entitlement"] == ["cpu"], "list_pools"
    )
    await tools.until(lambda found: "100 cores" in str(found["wrong_now"]), "cluster_status")


async def waiting(tools: Tools) -> Any:
    return of((await tools("why_job", job="crowd"))["groups"], state="PENDING")


async def small(tools: Tools, key: str) -> float:
    pool = of((await tools("list_pools", under="/small"))["pools"], path="/small")
    value: float = of(pool["amounts"], kind="cpu")[key]
    return value


Question = tuple[str, Callable[[Tools], Awaitable[Any]], Any]


async def over(tools: Tools) -> Any:
    pools = (await tools("list_pools"))["pools"]
    return [pool["path"] for pool in pools if pool["leaf"] and pool["over_entitlement"]]


async def queue(tools: Tools) -> Any:
    queues = (await tools("pool_queue", pool="/small"))["queues"]
    return [(gang["position"], gang["job_name"]) for each in queues for gang in each["gangs"]]


async def lacks(tools: Tools) -> bool:
    return "100 cores" in str(
        [line for line in (await tools("cluster_status"))["wrong_now"] if "giant" in line]
    )


async def remedies(tools: Tools) -> Any:
    return (await waiting(tools))["what_would_help"]


async def logs(tools: Tools, **arguments: Any) -> str:
    text: str = (await tools("task_logs", **arguments))["text"]
    return text


async def failed_update(tools: Tools) -> Any:
    plan = await tools("plan_run", spec=SERVICE % (SECRET, 2), pool="/test")
    return [line.strip() for line in plan["will"]][1:4]


async def busiest(tools: Tools) -> bool:
    hosts = (await tools("list_hosts"))["hosts"]
    return all(host["used"].get("cpu", 0) <= host["capacity"]["cpu"] for host in hosts) and len(hosts) == 3


async def runs_on(tools: Tools) -> bool:
    task = (await tools("list_tasks", job="web", limit=1))["tasks"][0]
    return task["run"] in (await tools("host_tasks", hostname=task["host"]))["runs"]


async def found(tools: Tools, **arguments: Any) -> list[str]:
    return sorted(row["name"] for row in (await tools("find_jobs", **arguments))["jobs"])


async def field(tools: Tools, key: str, tool: str, **arguments: Any) -> Any:
    return (await tools(tool, **arguments))[key]


async def would(tools: Tools, **arguments: Any) -> Any:
    return (await tools("plan_job_action", **arguments))["will"][0]


QUESTIONS: list[Question] = [
    ("How many instances of crowd are pending?", lambda t: pending_count(t), 1),
    ("Why is it pending?", lambda t: pending_cause(t), True),
    (
        "What would start it?",
        remedies,
        [
            "it goes on when tasks of /small give back 1 core",
            "or raise the limit of /small from 0.5 cores to at least 1.5 cores",
        ],
    ),
    ("Which instances wait?", lambda t: waiting_instances(t), 1),
    ("Which pool is over its entitlement?", over, ["/small"]),
    ("By how much?", lambda t: small(t, "over_entitlement"), 0.5),
    ("How much does it hold?", lambda t: small(t, "allocation"), 1.0),
    ("What does it ask for?", lambda t: small(t, "demand"), 0.5),
    ("What is its limit?", lambda t: small(t, "limit"), 0.5),
    ("Who waits in its queue?", queue, [(1, "crowd")]),
    ("Which job can never run, and what does it lack?", lacks, True),
    ("Do all daemons answer?", lambda t: all_answer(t), True),
    ("How many hosts are up?", lambda t: up(t), 3),
    ("Is any host lost?", lambda t: field(t, "total", "list_hosts", states=["LOST"]), 0),
    ("Is any host over its capacity?", busiest, True),
    ("Does a run of web stand on the host that it names?", runs_on, True),
    ("Which jobs of ana failed?", lambda t: found(t, team="ana", states=["FAILED"]), ["unlucky"]),
    ("Which jobs run in /small?", lambda t: found(t, pool="/small"), ["crowd"]),
    ("Which jobs have names that begin with w?", lambda t: found(t, name="w*"), ["web", "worker"]),
    ("Why did unlucky fail?", lambda t: failed_cause(t), "exit code 3"),
    ("What did it write to stderr?", lambda t: logs(t, job="unlucky", file="stderr"), "out of luck\n"),
    ("With which code did it end?", lambda t: exit_code(t), 3),
    ("Through which states did it go at last?", lambda t: last_event(t), "FAILED"),
    ("What did greeter write?", lambda t: logs(t, job="greeter"), "hello\n"),
    ("How many instances of worker run?", lambda t: running(t), 4),
    ("What does an instance of web ask for?", lambda t: asks(t), "0.1 cores"),
    ("What would version 2 of web change?", failed_update, ["added: none", "removed: none", "updated: 0-1"]),
    (
        "What would happen if I stopped worker?",
        lambda t: would(t, job="worker", action="stop"),
        "4 instances on hosts will be killed; each gets its kill grace period to end",
    ),
    ("Would a job of 8 instances with 0.1 cores find room?", lambda t: room(t), True),
    ("Who am I?", lambda t: field(t, "kind", "whoami"), "nobody"),
]


async def pending_cause(tools: Tools) -> bool:
    group = await waiting(tools)
    return str(group["cause"]).endswith("> entitlement 0.5 cores in /small")


async def waiting_instances(tools: Tools) -> int:
    return len((await waiting(tools))["instances"])


async def all_answer(tools: Tools) -> bool:
    return all(each["answers"] for each in (await tools("cluster_status"))["daemons"])


async def up(tools: Tools) -> int:
    count: int = (await tools("cluster_status"))["hosts"]["UP"]
    return count


async def failed_cause(tools: Tools) -> Any:
    return of((await tools("why_job", job="unlucky"))["groups"], state="FAILED")["cause"].rpartition(", ")[2]


async def exit_code(tools: Tools) -> Any:
    return (await tools("list_tasks", job="unlucky"))["tasks"][0]["exit_code"]


async def last_event(tools: Tools) -> Any:
    return (await tools("task_events", job="unlucky"))["events"][0]["state"]


async def running(tools: Tools) -> Any:
    return (await tools("list_tasks", job="worker", states=["running"]))["total"]


async def asks(tools: Tools) -> Any:
    return (await tools("get_job", job="web"))["asks"]["CPU"]


async def room(tools: Tools) -> bool:
    def all_now(plan: Any) -> bool:
        return any("8 would be placed now" in line for line in plan["will"])

    # A placement engine that tries the giant again has claimed hosts for a moment.
    await tools.until(all_now, "plan_run", spec=job("eight", 8, 0.1, "true"), pool="/test")
    return True


async def pending_count(tools: Tools) -> Any:
    return (await waiting(tools))["count"]


@pytest.fixture
def server(harness: Harness) -> StdioServerParameters:
    environment = {"PATH": os.environ["PATH"], **harness.cluster.urls()}
    return StdioServerParameters(command=sys.executable, args=["-m", "peloton.cli", "mcp"], env=environment)


async def test_thirty_questions_are_answered_from_the_tools_alone(server: StdioServerParameters) -> None:
    assert len(QUESTIONS) == 30
    async with Client(stdio_client(server)) as client:
        tools = Tools(client)
        await world(tools)
        wrong = {}
        for question, ask, expected in QUESTIONS:
            try:
                answer = await ask(tools)
            except (Refusal, ValueError, KeyError) as error:
                answer = error
            if answer != expected:
                wrong[question] = answer
        assert wrong == {}
        assert SECRET not in "".join(tools.said)
        await only_by_the_token_of_a_plan(tools)


async def only_by_the_token_of_a_plan(tools: Tools) -> None:
    """A token counts once, and only while the job is as it was shown; an update, and back."""
    stale = await tools("plan_job_action", job="web", action="stop")
    plan = await tools("plan_run", spec=SERVICE % (SECRET, 2), pool="/test", batch_size=0)
    assert "hidden:" not in str(plan["will"])  # the variable is as it was
    await tools("apply_plan", token=plan["token"])
    with pytest.raises(Refusal, match="no plan has this token"):
        await tools("apply_plan", token=plan["token"])
    with pytest.raises(Refusal, match="is not as it was when the plan was made"):
        await tools("apply_plan", token=stale["token"])
    await tools.until(lambda found: found["updates"][0]["state"] == "SUCCEEDED", "get_job", job="web")
    await tools.until(lambda log: log["text"] == "version 2\n", "task_logs", job="web")
    changed = await tools("plan_run", spec=SERVICE % ("another", 2), pool="/test")
    assert "environment" in str(changed["will"]) and "another" not in str(changed["will"]), changed
    await tools.done("plan_job_action", job="web", action="rollback")
    await tools.until(lambda log: log["text"] == "version 1\n", "task_logs", job="web")
    await tools.done("plan_job_action", job="worker", action="stop")
    await tools.until(lambda found: found["state"] == "KILLED", "get_job", job="worker")
    await tools.done("plan_job_action", job="worker", action="delete")
    with pytest.raises(Refusal, match="job not found"):
        await tools("get_job", job="worker")


PAGE = Path(__file__).parents[2] / "docs" / "mcp.md"


def test_the_program_of_the_page_runs(server: StdioServerParameters, tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    passed = program.replace('args=["mcp"])', 'args=["mcp"], env=dict(os.environ))').replace(
        "import asyncio\n", "import asyncio\nimport os\n"
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", passed],
        env={**(server.env or {}), "PATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.startswith("wrong now: "), done.stderr


async def test_the_same_tools_answer_by_http(server: StdioServerParameters) -> None:
    command = [server.command, *server.args, "--http", "--port", "0"]
    process = subprocess.Popen(command, env=server.env, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220 - a moment
    assert process.stdout is not None
    try:
        url = process.stdout.readline().split()[-1]
        assert url.startswith("http://127.0.0.1:"), url
        async with Client(url) as client:
            tools = Tools(client)
            assert await all_answer(tools)
            plan = await tools("plan_run", spec=job("by-http", 1, 0.1, "true"), pool="/test")
            assert (await tools("apply_plan", token=plan["token"]))["text"].endswith("was created")
    finally:
        process.terminate()
        assert process.wait(60) == 0
        process.stdout.close()
