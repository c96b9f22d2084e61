"""Forms of the output, colours, watching, and what takes long."""

from __future__ import annotations

import io
import json
import os
import pty
import sys
import threading
import time
from typing import Any

import click
import grpc
import pytest
import yaml

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.cli import screen, waiting
from peloton.cli.app import cli
from peloton.cli.colours import has_colours
from peloton.cli.failures import CallFailed
from peloton.cli.groups import VIEWS, Command
from peloton.cli.listing import listing
from peloton.cli.reference import OF_OTHERS
from peloton.cli.screen import FullScreen, PlainScreen, repeat

from .conftest import Run
from .fakes import FakeDaemons

JOB = "c9c6b5c4-0000-0000-0000-000000000001"
GONE = (grpc.StatusCode.NOT_FOUND, "job not found")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def jobs() -> job_pb2.QueryResponse:
    runtime = job_pb2.RuntimeInfo(state=job_pb2.RUNNING, goalState=job_pb2.SUCCEEDED)
    label = peloton_pb2.Label(key="team", value="data")
    found = job_pb2.JobSummary(
        id=peloton_pb2.JobID(value=JOB),
        name="web",
        respoolID=peloton_pb2.ResourcePoolID(value="p1"),
        runtime=runtime,
        labels=[label],
    )
    return job_pb2.QueryResponse(results=[found])


def info(state: str = "RUNNING") -> job_pb2.GetResponse:
    runtime = job_pb2.RuntimeInfo(state=job_pb2.JobState.Value(state), taskStats={state: 2})
    config = job_pb2.JobConfig(name="web", instanceCount=2)
    return job_pb2.GetResponse(
        jobInfo=job_pb2.JobInfo(id=peloton_pb2.JobID(value=JOB), config=config, runtime=runtime)
    )


@pytest.mark.parametrize("place", ["before", "behind", "global"])
def test_forms_of_a_list(run: Run, daemons: FakeDaemons, place: str) -> None:
    daemons.answers["Query"] = jobs()

    def shown(form: str) -> str:
        if place == "global":
            return run("-o", form, "job", "query").out
        # `-o` of a query is its offset
        arguments = ["--output", form, "-o", "0"] if place == "before" else ["-o", "0", "--output", form]
        return run("job", "query", *arguments).out

    assert "Labels" not in shown("table")
    head, row = shown("wide").splitlines()
    assert head.split()[-3:] == ["State", "Pool", "Labels"] and row.split()[-3:] == [
        "SUCCEEDED",
        "p1",
        "team=data",
    ]
    assert shown("name") == f"{JOB}\n"
    assert json.loads(shown("json"))["results"][0]["name"] == "web"
    assert yaml.safe_load(shown("yaml"))["results"][0]["name"] == "web"


def test_forms_of_one_object(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["Get"] = info()
    whole = run("job", "get", JOB).out
    assert yaml.safe_load(whole)["jobInfo"]["config"]["name"] == "web"
    assert run("job", "get", JOB, "-o", "yaml").out == whole == run("job", "get", JOB, "-o", "wide").out
    assert run("job", "get", JOB, "-o", "name").out == f"{JOB}\n"
    rows = run("job", "get", JOB, "-o", "table").out.splitlines()
    assert [row.split() for row in rows][:2] == [["Field", "Value"], ["jobInfo.id.value", JOB]]
    assert json.loads(run("job", "get", JOB, "-o", "json").out)["jobInfo"]["config"]["instanceCount"] == 2


def test_times_in_nanoseconds_are_told_as_text_beside(run: Run, daemons: FakeDaemons) -> None:
    answer = info()
    answer.jobInfo.config.changeLog.createdAt = 1795685960540821461
    daemons.answers["Get"] = answer
    log = json.loads(run("job", "get", JOB, "-j").out)["jobInfo"]["config"]["changeLog"]
    assert (log["createdAt"], log["createdAtTime"]) == (
        "1795685960540821461",
        "2026-11-26T09:39:20.540821461Z",
    )
    assert (log["updatedAt"], log["updatedAtTime"]) == ("0", "")
    assert "createdAtTime" not in run("job", "get", JOB, "-o", "yaml").out  # the spec reader takes that back


def test_what_is_created_has_a_name(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["Refresh"] = job_pb2.RefreshResponse()
    assert run("job", "refresh", JOB, "-o", "name").out == f"Job {JOB} refreshed\n"
    daemons.answers["Query"] = task_pb2.QueryResponse(records=[task_pb2.TaskInfo(instanceId=3)])
    assert run("task", "query", JOB, "--output", "name").out == "3\n"


def test_unknown_forms_are_refused(run: Run) -> None:
    for arguments in (["-o", "xml", "job", "query"], ["job", "get", JOB, "-o", "xml"]):
        outcome = run(*arguments)
        assert outcome.code == 2 and "'table', 'wide', 'json', 'yaml', 'name'" in outcome.err


def test_every_command_takes_the_output_and_those_that_look_are_watched() -> None:
    commands = dict(_commands(cli, click.Context(cli, info_name="peloton")))
    assert len(commands) > 90
    for path, command in commands.items():
        flags = {flag for param in command.params for flag in param.opts}
        assert {"-j", "--output"} <= flags, path
        assert ("--watch" in flags) == (path.split()[-1] in VIEWS), path


def _commands(group: click.Group, context: click.Context) -> Any:
    for name in group.list_commands(context):
        if name in OF_OTHERS:
            continue
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, context, name)
        if isinstance(command, click.Group):
            yield from _commands(command, inner)
        else:
            assert isinstance(command, Command), inner.command_path
            yield inner.command_path, command


def test_a_table_is_blocks_on_a_terminal_that_is_too_narrow() -> None:
    rows = listing(("Name", "State", "Host"), [("a" * 30, "RUNNING", "h1"), ("b", "FAILED", "")])
    narrow = rows.render(terminal=40)
    assert narrow.split("\n") == [
        f"Name   {'a' * 30}",
        *("State  RUNNING", "Host   h1", "", "Name   b", "State  FAILED"),
    ]
    assert rows.render(terminal=79) == rows.render(terminal=0) == str(rows)  # it fits, it is no terminal
    wide = listing(("Name",), [("a" * 100,)])
    assert wide.render(terminal=80) == str(wide)


def test_tables_are_coloured_on_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = listing(("Name", "State", "Host"), [("RUNNING", "FAILED", ""), ("a", "RUNNING", "h")])
    assert "\x1b" not in str(rows)
    coloured = rows.render(colours=True).splitlines()
    assert coloured[0].startswith("\x1b[1mName\x1b[0m")
    assert coloured[1] == "RUNNING  \x1b[31mFAILED\x1b[0m" and "\x1b[32mRUNNING\x1b[0m  h" in coloured[2]
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert has_colours(Terminal()) and not has_colours(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colours(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not has_colours(Terminal())


def test_watching_without_a_terminal_repeats_until_it_is_refused(run: Run, daemons: FakeDaemons) -> None:
    away = (grpc.StatusCode.UNAVAILABLE, "not the leader")
    daemons.answers["Get"] = [info(), away, info("SUCCEEDED"), GONE]
    outcome = run("job", "get", JOB, "--watch", "--interval", "1ms", "-o", "table")
    assert outcome.code == 1 and "job not found" in outcome.err
    assert outcome.out.count("Field") == 2 and "not up to date" in outcome.out
    assert outcome.out.index("RUNNING") < outcome.out.index("not up to date") < outcome.out.index("SUCCEEDED")


def test_watching_with_wrong_arguments(run: Run) -> None:
    assert "No such option '--watch'" in run("job", "refresh", JOB, "--watch").err
    outcome = run("job", "get", JOB, "-w", "--interval", "often")
    assert outcome.code == 2 and "'often' is not a duration" in outcome.err


def test_a_screen_gives_up_only_where_nobody_looks() -> None:
    now = [0.0]

    def fail() -> str:
        now[0] += 50
        raise CallFailed("UNAVAILABLE", "nobody there")

    out = io.StringIO()
    with pytest.raises(CallFailed):
        repeat(PlainScreen(out, lambda seconds: None), fail, "t", 1, clock=lambda: now[0])
    assert out.getvalue().count("nobody there") == 2

    class Live:
        live = True

        def __init__(self) -> None:
            self.drawn: list[str] = []

        def draw(self, text: str) -> None:
            self.drawn.append(text)

        def pause(self, seconds: float) -> str:
            return "q" if len(self.drawn) == 9 else "x"

    keys: list[str] = []
    live = Live()
    assert repeat(live, fail, "title", 1, clock=lambda: now[0], on_key=keys.append) == 0
    assert keys == ["x"] * 8 and "nobody there" in live.drawn[-1] and "q: leave" in live.drawn[-1]


def test_the_whole_terminal_is_used_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((80, 4)))
    with os.fdopen(slave, "r") as keys, os.fdopen(os.dup(slave), "w") as out:
        with screen.opened(keys, out) as found:
            assert isinstance(found, FullScreen)
            found.draw("\n".join(f"line {number}" for number in range(9)))
            assert found.pause(0) == ""
            os.write(master, b"q")
            assert found.pause(60) == "q"
        text = ""
        while "\x1b[?1049l" not in text:  # a terminal gives what was written in pieces
            text += os.read(master, 4096).decode()
    os.close(master)
    assert text.startswith("\x1b[?1049h") and text.endswith("\x1b[?1049l")
    assert "line 2" in text and "line 3" not in text and "… 6 more lines" in text


def test_a_call_that_takes_long_says_so_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE", 0.0)
    shown = threading.Event()

    class Watched(Terminal):
        def write(self, text: str) -> int:
            if "waiting for jobmgr: Get" in text:
                shown.set()
            return super().write(text)

    stream = Watched()
    monkeypatch.setattr(sys, "stderr", stream)
    with waiting.waiting("jobmgr: Get"):
        assert shown.wait(60)
    assert stream.getvalue().endswith("\r\x1b[K"), "the line is removed"
    quiet = io.StringIO()
    monkeypatch.setattr(sys, "stderr", quiet)
    with waiting.waiting("jobmgr: Get"):
        time.monotonic()
    assert quiet.getvalue() == ""


def test_the_head_line_of_a_screen_takes_the_lines_that_it_needs() -> None:
    parts = ["peloton top", "p: pools", "j: jobs", "h: hosts", "every 2 s", "12:00:00", "q: leave"]
    assert screen.wrapped(parts, 40) == [
        "peloton top   p: pools   j: jobs",
        "h: hosts   every 2 s   12:00:00",
        "q: leave",
    ]
    assert screen.wrapped(parts, 200) == ["   ".join(parts)]
    assert screen.wrapped(["a long part"], 5) == ["a long part"]
