"""`peloton job usage` and `peloton top tasks`."""

from __future__ import annotations

import json

import grpc
import pytest
import yaml

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.cli.usage import CpuRates, left_out
from peloton.present.usage import usage_text
from peloton.private.jobmgr.usage import usage_pb2

from .conftest import Run
from .fakes import FakeDaemons

JOB = "91b1ee88-43fc-4a51-8cb4-d1e1b7e4b5a0"
MB = 1024 * 1024


def row(instance: int, cpu_seconds: float = 10.0, **more: float) -> usage_pb2.InstanceUsage:
    return usage_pb2.InstanceUsage(
        instance=instance,
        run=f"{JOB}-{instance}-1",
        host="h1",
        cpu_seconds=cpu_seconds,
        cpu_mean=cpu_seconds / 40,
        cpu_limit=1,
        memory_bytes=120 * MB,
        memory_limit_bytes=256 * MB,
        processes=2,
        memory_peak_bytes=int(more.get("peak", 140)) * MB,
    )


@pytest.fixture(autouse=True)
def answer(daemons: FakeDaemons) -> None:
    unread = [usage_pb2.UnreadHost(host="h2", reason="agent 10.0.0.2:5051 cannot be reached")]
    found = usage_pb2.GetUsageResponse(usages=[row(0), row(1, 30.0)], running=3, unread=unread)
    daemons.answers["GetUsage"] = found


def test_a_row_for_each_instance_and_what_is_left_out(run: Run, daemons: FakeDaemons) -> None:
    outcome = run("job", "usage", JOB, "-i", "0", "-i", "1")
    lines = [line.split() for line in outcome.out.splitlines()]
    assert lines[1] == ["0", "h1", "0.25", "1", "10.0", "120.0", "140.0", "256.0", "2"]
    assert [line[0] for line in lines] == ["Instance", "0", "1"]
    assert outcome.err.splitlines() == [
        "h2: agent 10.0.0.2:5051 cannot be reached",
        "1 running instance without figures",
    ]
    request = daemons.requests("GetUsage")[0]
    assert (request.job_id.value, list(request.instances)) == (JOB, [0, 1])
    assert json.loads(run("job", "usage", JOB, "-j").out)["usages"][1]["cpu_seconds"] == 30.0


def told(daemons: FakeDaemons) -> None:
    last = row(0)
    last.cores, last.told_at = 0.25, 1769860800.0
    daemons.answers["GetUsage"] = usage_pb2.GetUsageResponse(usages=[last])


def task_of(number: int, state: str) -> task_pb2.TaskInfo:
    runtime = task_pb2.RuntimeInfo(state=task_pb2.TaskState.Value(state))
    return task_pb2.TaskInfo(instanceId=number, runtime=runtime)


def test_lists_of_tasks_show_what_agents_told_last(run: Run, daemons: FakeDaemons) -> None:
    tasks = {0: task_of(0, "RUNNING"), 1: task_of(1, "PENDING")}
    daemons.answers["List"] = task_pb2.ListResponse(result=task_pb2.ListResponse.Result(value=tasks))
    daemons.answers["Query"] = task_pb2.QueryResponse(records=tasks.values())
    told(daemons)
    for command in ("list", "query"):
        heads, first, second = run("task", command, JOB).out.splitlines()
        assert "Cores  Used Cores  MB   Used MB  Peak MB" in heads
        assert first.split() == ["0", "RUNNING", "1", "0.25", "256", "120", "140"]
        assert second.split() == ["1", "PENDING"]
    request = daemons.requests("GetUsage")[0]
    assert request.told_last and list(request.instances) == [0]


def test_lists_of_tasks_have_no_such_columns_where_nothing_is_told(run: Run, daemons: FakeDaemons) -> None:
    running = task_pb2.ListResponse.Result(value={0: task_of(0, "RUNNING")})
    daemons.answers["List"] = task_pb2.ListResponse(result=running)
    assert "Used Cores" not in run("task", "list", JOB).out, "a job manager that asks the agents"
    daemons.answers["GetUsage"] = (grpc.StatusCode.UNIMPLEMENTED, "not known")
    assert "Used Cores" not in run("task", "list", JOB).out
    daemons.answers["List"] = task_pb2.ListResponse()
    run("task", "list", JOB)
    assert len(daemons.requests("GetUsage")) == 2, "nobody is asked where nothing runs"


def test_an_instance_shows_what_it_uses(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["Get"] = task_pb2.GetResponse(result=task_of(0, "RUNNING"))
    told(daemons)
    used = {
        "cores": 0.25,
        "cores_asked": 1.0,
        "memory_mb": 120.0,
        "memory_peak_mb": 140.0,
        "memory_asked_mb": 256.0,
        "told_at": "2026-01-31T12:00:00Z",
    }
    assert json.loads(run("task", "get", JOB, "0", "-j").out)["used"] == used
    assert yaml.safe_load(run("task", "get", JOB, "0").out)["used"] == used
    daemons.answers["GetUsage"] = usage_pb2.GetUsageResponse()
    assert "used" not in json.loads(run("task", "get", JOB, "0", "-j").out)


def test_a_job_shows_what_its_runs_use(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["Get"] = job_pb2.GetResponse(jobInfo=job_pb2.JobInfo())
    daemons.answers["ListUsed"] = usage_pb2.ListUsedResponse(
        jobs=[
            usage_pb2.JobUsed(
                job_id=JOB, cores=0.5, memory_bytes=240 * MB, runs=2, cores_asked=1, memory_peak_mb=140
            )
        ]
    )
    used = json.loads(run("job", "get", JOB, "-j").out)["used"]
    assert (used["runs"], used["cores"], used["memory_mb"]) == (2, 0.5, 240)
    assert (used["cores_asked_by_each"], used["memory_peak_mb_of_one"]) == (1, 140)
    assert daemons.requests("ListUsed")[0].job_id == JOB
    daemons.answers["ListUsed"] = (grpc.StatusCode.UNIMPLEMENTED, "not known")
    assert "used" not in json.loads(run("job", "get", JOB, "-j").out)


def test_top_shows_the_busiest_first(run: Run) -> None:
    outcome = run("top", "tasks", "--job", JOB, "-n", "1")
    assert [line.split()[0] for line in outcome.out.splitlines()[1:]] == ["1", "0"]
    assert "--job JOB says whose tasks" in run("top", "tasks", "-n", "1").err


def test_rates_are_those_since_the_last_time() -> None:
    rates, run = CpuRates(), row(0).run
    assert rates.take([row(0, 10.0)], 100.0) == {run: 0.25}
    assert rates.take([row(0, 14.0)], 102.0) == {run: 2.0}
    assert rates.take([], 103.0) == {}
    assert rates.take([row(0, 20.0)], 104.0) == {run: 0.5}


def test_words() -> None:
    assert usage_text(row(0)) == ("0.25 of 1 core on average, 120 of 256 MB memory, at most 140 MB at a time")
    assert usage_text(row(0, peak=0)) == "0.25 of 1 core on average, 120 of 256 MB memory"
    assert left_out(usage_pb2.GetUsageResponse()) == []


def account(pool: str, held: float, used: float, **more: object) -> usage_pb2.Account:
    amounts = usage_pb2.Amounts(
        held_cpu=held, held_memory=held * 1024, used_cpu=used, used_memory=used * 512, lost_cpu=held / 10
    )
    return usage_pb2.Account(pool=pool, amounts=amounts, **more)  # type: ignore[arg-type]


def test_accounts_show_what_of_the_held_hours_was_used(run: Run, daemons: FakeDaemons) -> None:
    accounts = [account("/a", 36_000, 9_000), account("", 1, 0, pool_id="p-1", owner="x")]
    daemons.answers["ListAccounts"] = usage_pb2.ListAccountsResponse(accounts=accounts)
    lines = [" ".join(line.split()) for line in run("usage").out.splitlines()]
    assert lines == [
        "Pool Core Hours Used GB Hours Used GPU Hours Lost Core Hours",
        "/a 10 2.5 (25%) 10 1.25 (12%) 1",
        "deleted pool p-1 < 0.01 0 < 0.01 0 < 0.01",
    ]
    (request,) = daemons.requests("ListAccounts")
    assert list(request.by) == [request.POOL] and not request.until and not request.seconds


def test_accounts_as_csv_are_exact_and_by_what_was_asked(run: Run, daemons: FakeDaemons) -> None:
    one = account("/a,b", 1234567.000001, 0.5, owner="ann", labels={"b": "2", "a": "1"}, start=1_700_000_400)
    daemons.answers["ListAccounts"] = usage_pb2.ListAccountsResponse(accounts=[one])
    flags = (
        "--by",
        "pool",
        "--by",
        "owner",
        "--by",
        "label",
        "--every",
        "hour",
        "--since",
        "7d",
        "--pool",
        "/a",
    )
    outcome = run("usage", *flags, "-o", "csv")
    head, row = outcome.out.splitlines()
    assert head.startswith(
        "from,pool,owner,label,held_core_seconds,held_gpu_seconds,held_memory_mb_seconds,used"
    )
    assert row.startswith('2023-11-14T22:20Z,"/a,b",ann,"a=1,b=2",1234567.000001,0,')
    (request,) = daemons.requests("ListAccounts")
    assert (request.seconds, request.pool, len(request.by)) == (3600, "/a", 3)


def test_times_that_are_none_are_refused_and_nothing_is_said(run: Run, daemons: FakeDaemons) -> None:
    assert "'7w' is not a time, such as 7d or 12h ago" in run("usage", "--since", "7w").err
    assert "'0d' is not a time" in run("usage", "--since", "0d").err
    assert "--since is not before --until" in run("usage", "--since", "1h", "--until", "2h").err
    daemons.answers["ListAccounts"] = usage_pb2.ListAccountsResponse()
    outcome = run("usage", "--since", "2026-01-31", "--until", "2026-02-01T00:00:00Z")
    assert outcome.err == "No job has held anything in that time.\n"
    request = daemons.requests("ListAccounts")[-1]
    assert (request.since, request.until) == (1_769_817_600, 1_769_904_000)


def test_lists_are_written_as_csv(run: Run) -> None:
    head, *rows = run("job", "usage", JOB, "-o", "csv").out.splitlines()
    assert head.startswith("Instance,Host,Cores,") and head.endswith(",Run")
    assert [row.split(",")[0] for row in rows] == ["0", "1"]
