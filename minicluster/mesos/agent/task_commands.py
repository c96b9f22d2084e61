"""Commands that run beside a task, such as health checks: as the user of the task."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent import enclosure
from minicluster.mesos.agent.cleanup import identity_of
from minicluster.mesos.agent.docker_engine import own_environment
from minicluster.mesos.agent.docker_run import container_name
from minicluster.mesos.agent.isolation import Isolation
from minicluster.mesos.agent.layout import Layout, read_json
from minicluster.mesos.agent.location import RunLocation, environment, file_and_argv
from minicluster.mesos.common.process_identity import with_variable

SESSION_VARIABLE = "PELOTON_SESSION_ID"
"""Set for a session in a container of docker, and what it starts: the engine does not say what these are."""
_BEGIN = """
import os, sys, warnings  # the last one for os: the user may not be able to read it later on
terminal, uid, gid, file, *argv = sys.argv[1:]
if terminal == "terminal":
    os.login_tty(0)
os.umask(0o022)
if uid:
    os.setgroups([])
    os.setgid(int(gid))
    os.setuid(int(uid))
try:
    os.execvp(file, argv)
except OSError as error:
    sys.exit(f"Failed to execute '{file}': {error.strerror}")
"""
"""A process of its own takes the terminal and the user: a fork of this one could not do it safely beside
threads, and uvloop does not take users."""


def beside(
    file: str, argv: Sequence[str], user: tuple[int, int] | None, terminal: bool = False
) -> tuple[str, list[str]]:
    """Return what to execute, and its whole argv, so that a command runs as a user, or in a terminal."""
    if user is None and not terminal:
        return file, list(argv)
    uid, gid = ("", "") if user is None else map(str, user)
    taken = "terminal" if terminal else "none"
    return sys.executable, [sys.executable, "-I", "-S", "-c", _BEGIN, taken, uid, gid, file, *argv]


def _kill_with_variable(session: str) -> None:
    for process in with_variable(SESSION_VARIABLE, session):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGKILL)


class Companions:
    """How commands run beside the tasks of one agent."""

    def __init__(
        self,
        layout: Layout,
        isolation: Isolation,
        in_docker: Callable[[mesos.TaskInfo], bool] = lambda task: False,
    ) -> None:
        """Use ``in_docker`` to know whether docker runs a task."""
        self._layout = layout
        self._isolation = isolation
        self._in_docker = in_docker

    def user_of(self, task: mesos.TaskInfo, place: RunLocation) -> tuple[int, int] | None:
        """Return the user of a task, None for the agent's own."""
        return self._isolation.user_of(task, place.container_id)

    def environment(
        self, task: mesos.TaskInfo, place: RunLocation, more: Iterable[mesos.Environment.Variable] = ()
    ) -> dict[str, str]:
        """Return the environment of what `command` returns: a task's, and more variables.

        In a container there is the container's: that of `docker` has nothing of the task.
        """
        if self._in_docker(task):
            return dict(own_environment())
        own = environment(task, place, self._isolation.login_of(task, self.user_of(task, place)))
        return own | {variable.name: variable.value for variable in more}

    async def end_in_docker(self, task: mesos.TaskInfo, session: str) -> None:
        """Kill what a session has left in the container of a task: `docker exec` does not take it along."""
        if self._in_docker(task):
            await asyncio.to_thread(_kill_with_variable, session)

    def command(
        self,
        task: mesos.TaskInfo,
        place: RunLocation,
        command: mesos.CommandInfo,
        terminal: bool = False,
        session: str = "",
    ) -> tuple[str, list[str]]:
        """Return what to execute, and its whole argv, to run a command beside a task. Raise OSError.

        ``session``: its id, where its input is passed on, and it is to be ended by `end_in_docker`.
        """
        file, argv = file_and_argv(command)
        if self._in_docker(task):
            name = container_name(place.container_id)
            options = [f"--env={SESSION_VARIABLE}={session}", "--interactive"] if session else []
            options += ["--tty"] if terminal else []
            return beside("docker", ["docker", "exec", *options, name, file, *argv[1:]], None, terminal)
        user = self.user_of(task, place)
        if not self._isolation.encloses:
            return beside(file, argv, user, terminal)
        init = identity_of(read_json(self._layout.pid_file(place.container_id)), "task")
        if init is None:
            raise ProcessLookupError(errno.ESRCH, "its task does not run")
        uid, gid = ("", "") if user is None else map(str, user)
        inside = ["user" if user is None else "none", uid, gid, str(place.sandbox)]
        words = ["terminal" if terminal else "none", str(init.pid), *inside, file, *argv]
        return sys.executable, [sys.executable, "-I", "-S", enclosure.__file__, *words]
