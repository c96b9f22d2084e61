"""Start several of our programs out of one process that has imported what they share.

`python -m minicluster.forked` imports what all of them need, says `ready`, and takes a plan (JSON, one line
of its standard input: `{"modules": […], "programs": […]}`). It imports those modules, too, starts each
program in a process of its own, writes `{"name": …, "pid": …}` for each, and ends. The memory that was
filled before a fork is shared by all until one of them writes to it, and the imports take their time once.

A program that was started so is like one that was started by its command: see `minicluster.launching`.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from peloton.config.private import FILE

READY = "ready"
ROOM = "-" * 3000
"""The last argument of this program: room for the command lines that `ps` shows of those that it starts."""
ARG_START, ARG_END = 48 - 3, 49 - 3
"""Fields of /proc/PID/stat, after the name: see proc(5)."""


@dataclass(frozen=True, slots=True)
class Group:
    """Programs and groups of programs that share imports.

    Of our own modules, a program finds those imported that it imports anyway, and generated ones: a metric,
    for example, is in the processes that have it otherwise, and in no others.
    """

    modules: Sequence[str]
    programs: frozenset[str] = frozenset()
    """By the module of each."""
    groups: Sequence[Group] = ()

    def all(self) -> Iterator[str]:
        """Iterate over the programs of this group and of the groups within."""
        yield from self.programs
        for group in self.groups:
            yield from group.all()


MESOS = Group(
    (
        "minicluster.mesos.common.agent_link",
        "minicluster.mesos.common.launch_costs",
        "minicluster.mesos.common.resource_json",
        "minicluster.mesos.common.resource_notation",
        "minicluster.mesos.common.secrets",
        "minicluster.mesos.common.server_process",
        "minicluster.mesos.common.status_updates",
    ),
    frozenset({"minicluster.mesos.master"}),
    (Group(("minicluster.mesos.agent.service",), frozenset({"minicluster.mesos.agent"})),),
)
STORING = Group(
    ("storage.selection.factory",),
    frozenset({"archiver"}),
    (
        Group(
            ("peloton.wire.hosts", "peloton.wire.ids", "peloton.wire.mesos", "storage.histories.samples"),
            frozenset({"resmgr"}),
            (
                Group(
                    (
                        "peloton.mesos.agent_usage",
                        "peloton.wire.foreign_pods",
                        "peloton.wire.holds",
                        "peloton.wire.launch",
                        "peloton.wire.v1alpha.pod_status",
                        "storage.histories.courses",
                    ),
                    frozenset({"hostmgr", "jobmgr"}),
                ),
            ),
        ),
    ),
)
DAEMONS = Group(
    ("peloton.daemon.lifecycle", "peloton.wire.task", "peloton.wire.workload"),
    groups=(
        STORING,
        Group(
            ("placement.clients", "placement.config", "placement.engine", "placement.planning"),
            frozenset({"placement"}),
        ),
    ),
)
SERVICES = Group(
    (
        "peloton.calls.operators",
        "peloton.config.arguments",
        "peloton.daemon.http",
        "peloton.membership.factory",
        "peloton.membership.local",
        "peloton.rpc.clusters",
        "peloton.rpc.tls",
        # Generated: what the web UI calls, and jobmgr or resmgr serves.
        "peloton.api.v0.respool.respool_pb2_grpc",
        "peloton.api.v0.task.task_pb2_grpc",
        "peloton.api.v1alpha.job.stateless.svc.stateless_svc_pb2_grpc",
        "peloton.private.jobmgr.exec.exec_pb2_grpc",
        "peloton.private.jobmgr.forecast.forecast_pb2_grpc",
        "peloton.private.jobmgr.maintenance.maintenance_pb2_grpc",
        "peloton.private.jobmgr.scheduling.scheduling_pb2_grpc",
        "peloton.private.jobmgr.secrets.secrets_pb2_grpc",
        "peloton.private.jobmgr.usage.usage_pb2_grpc",
        "peloton.private.plan.plan_pb2_grpc",
        "peloton.private.resmgr.explain.explain_pb2_grpc",
        "peloton.private.resmgr.monitoring.monitoring_pb2_grpc",
    ),
    frozenset({"peloton.web"}),
    (DAEMONS,),
)
ALL = Group(
    (
        # Packages of others. A program that does not use one has it in its memory, and nothing else.
        "cachetools",
        "google.protobuf.json_format",
        "google.rpc.status_pb2",
        "grpc.aio",
        "grpc_health.v1.health_pb2_grpc",
        "grpc_reflection.v1alpha.reflection",
        "httptools",
        "jinja2",
        "numpy.typing",
        "prometheus_client.core",
        "psutil",
        "pydantic_settings",
        "sortedcontainers",
        "sqlite3",
        "starlette.applications",
        "starlette.staticfiles",
        "uvicorn.lifespan.off",
        "uvicorn.loops.auto",
        "uvicorn.protocols.http.auto",
        "uvicorn.protocols.http.h11_impl",
        "uvicorn.protocols.websockets.auto",
        "uvloop",
        "yaml",
        "mesos.v1.mesos_pb2",
        "peloton.config.tls",
        "peloton.daemon.log",
        "peloton.required_fields",
    ),
    groups=(MESOS, SERVICES),
)
ENCRYPTION = ("cryptography.hazmat.primitives.ciphers.aead", "cryptography.x509")
"""Packages that only the programs of a secure cluster use."""
PROGRAMS = frozenset(ALL.all())


@dataclass(frozen=True, slots=True)
class Program:
    """A program to start: `argv` is [PYTHON, "-m", MODULE, ARGUMENT…]; `log` takes its output."""

    name: str
    argv: Sequence[str]
    log: str

    @property
    def module(self) -> str:
        """Return its module; empty for a program that cannot be started here."""
        python, flag, module = [*self.argv, "", "", ""][:3]
        return module if (python, flag) == (sys.executable, "-m") and module in PROGRAMS else ""


def main() -> Program | None:
    """Start the programs of the plan; return the one that this process is to be, None in the first."""
    gc.disable()  # a collection would write to what is to be shared
    load(ALL.modules)
    say(READY)
    plan = json.loads(sys.stdin.readline() or '{"modules": [], "programs": []}')
    load(plan["modules"])
    return start(ALL, [Program(**each) for each in plan["programs"]])


def start(group: Group, programs: Sequence[Program]) -> Program | None:
    """Start those of the programs that are of a group, whose modules are imported; return as `main`."""
    for program in programs:
        if program.module in group.programs:
            pid = os.fork()
            if not pid:
                return program
            say(json.dumps({"name": program.name, "pid": pid}))
    pids = []
    for within in group.groups:
        members = frozenset(within.all())
        if chosen := [each for each in programs if each.module in members]:
            if not (pid := os.fork()):
                load(within.modules)
                return start(within, chosen) or os._exit(0)
            pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    return None


def load(modules: Sequence[str]) -> None:
    """Import modules, and keep what they made out of later collections, which would write to it."""
    for name in modules:
        import_module(name)
    gc.freeze()


def say(text: str) -> None:
    """Write a line at once: several processes write to one pipe."""
    os.write(1, f"{text}\n".encode())


def show(argv: Sequence[str]) -> None:
    """Let `ps` show a command line in place of the one with which this process was started.

    It overwrites that one, as setproctitle(3) of BSD does. (The package of that name overwrites the
    environment in /proc, too.) The kernel shows the text up to the first NUL where the last byte is none.
    """
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = int(fields[ARG_START]), int(fields[ARG_END])
    text = " ".join(argv).encode()[: end - begin - 2]
    ctypes.memmove(begin, text.ljust(end - begin - 1, b"\0") + b"-", end - begin)


def become(program: Program) -> None:
    """Run a program in this process, as its command would have begun."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(program.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE)
    for new, old in ((null, 0), (log, 1), (log, 2)):
        os.dup2(new, old)
    os.close(null)
    os.close(log)
    argv: list[Any] = list(program.argv)
    show(argv)
    sys.orig_argv = argv
    sys.argv = argv[2:]
    gc.enable()
    runpy.run_module(argv[2], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    mine = main()
    if mine is not None:
        become(mine)
