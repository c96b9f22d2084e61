"""Numbers of options are bounded as the wire interface's fields are; what is beyond is a usage error."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.cli.app import cli
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2

from .conftest import Run
from .fakes import FakeDaemons

UINT32, UINT64 = 2**32 - 1, 2**64 - 1
JOB = "91b1ee88-43fc-4a51-8cb4-d1e1b7e4b5a0"


def parameters(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Parameter]]:
    """Of all commands, with the command's path."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, context, name)
        for parameter in command.params:
            yield inner.command_path, parameter
        if isinstance(command, click.Group):
            yield from parameters(command, inner)


def test_every_number_has_both_bounds() -> None:
    found = list(parameters(cli, click.Context(cli, info_name="peloton")))
    kinds = (click.types.IntParamType, click.types.FloatParamType)
    numbers = [(path, each) for path, each in found if isinstance(each.type, kinds)]
    unbounded = [
        f"{path} {each.name}"
        for path, each in numbers
        if not isinstance(each.type, click.IntRange | click.FloatRange)
        or each.type.max is None
        or each.type.max > UINT64
    ]
    assert len(numbers) > 10
    assert unbounded == []


COMMANDS = [
    (("job", "query", "-o"), UINT32),
    (("job", "query", "-q"), UINT32),
    (("job", "query", "-n"), 100),
    (("job", "query", "-d"), 36500),
    (("job", "stop", "--owner", "ann", "-f", "-n"), 100),
    (("job", "stop", "--owner", "ann", "-f", "-q"), UINT32),
    (("task", "query", JOB, "-o"), UINT32),
    (("task", "query", JOB, "-n"), 100),
    (("task", "get", JOB), UINT32),
    (("task", "events", JOB, "0", "-l"), UINT64),
    (("pod", "events", JOB, "0", "-l"), UINT64),
    (("pod", "events", JOB), UINT32),
    (("resmgr", "tasks", "pending", "pool", "--limit"), UINT32),
]


@pytest.mark.parametrize(("command", "most"), COMMANDS)
def test_the_largest_number_arrives_and_the_next_is_refused(
    run: Run, daemons: FakeDaemons, command: tuple[str, ...], most: int
) -> None:
    daemons.answers |= {
        "Query": job_pb2.QueryResponse() if command[0] == "job" else task_pb2.QueryResponse(),
        "Get": task_pb2.GetResponse(),
        "GetPodEvents": task_pb2.GetPodEventsResponse(),
        "GetPendingTasks": resmgrsvc_pb2.GetPendingTasksResponse(),
    }
    done = run(*command, str(most))
    assert (done.code, done.err) == (0, "")
    assert len(daemons.asked) == 1
    for number in (str(most + 1), str(10**30), "-1", "9" * 5000):
        refused = run(*command, number)
        assert refused.code == 2, number
        assert "defect" not in refused.err
    assert len(daemons.asked) == 1


@pytest.mark.parametrize("amount", ["nan", "inf", "-inf", "-1", "1e999", "x"])
@pytest.mark.parametrize("flag", ["-c", "-g", "--mem", "--disk"])
def test_amounts_are_finite(run: Run, daemons: FakeDaemons, flag: str, amount: str) -> None:
    daemons.answers["GetHostsByQuery"] = hostsvc_pb2.GetHostsByQueryResponse()
    refused = run("hostmgr", "hosts", flag, amount)
    assert refused.code == 2
    assert f"{amount!r} is not a number of 0 or more" in refused.err
    assert not daemons.asked
    assert run("hostmgr", "hosts", flag, "1.5").code == 0


@pytest.mark.parametrize("span", ["9" * 5000, f"0:{'9' * 5000}", f"0:{2**32}", str(2**31 - 1)])
def test_ranges_are_bounded(run: Run, daemons: FakeDaemons, span: str) -> None:
    refused = run("task", "list", JOB, "-r", span)
    assert refused.code == 2
    assert not daemons.asked
