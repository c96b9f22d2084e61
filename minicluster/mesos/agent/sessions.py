"""Sessions: commands that somebody runs beside a task, with its user and environment and in its sandbox.

They are the nested container sessions of a Mesos agent (recording ``13-agent-sandbox``). A session ends with
its command, with its task, or when its caller goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.location import RunLocation, file_and_argv
from minicluster.mesos.agent.run import Run
from minicluster.mesos.agent.task_commands import Companions

MOST = 200
"""Sessions at a time."""
MOST_ENDED = 1000
"""Ended sessions whose status is kept."""
_PIECE_BYTES = 64 * 1024
_DRAIN_SECONDS = 5.0
_UNWRITTEN_BYTES = 1024 * 1024
NOT_EXECUTED = 1 << 8
"""The wait status of a command that cannot be executed, as Mesos has it."""


class Output(Protocol):
    """Where what a session writes goes."""

    def begin(self) -> None:
        """Tell that the session has begun."""

    def write(self, stream: str, data: bytes) -> None:
        """Pass on a piece; ``stream`` is STDOUT or STDERR."""

    async def writable(self) -> None:
        """Wait while the reader is slow."""

    def end(self) -> None:
        """Tell that all was written."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """The size of a terminal, in characters."""

    rows: int = 24
    columns: int = 80


class PipeInput:
    """A pipe to a command."""

    def __init__(self, pipe: asyncio.StreamWriter) -> None:
        self._pipe = pipe
        self.write, self.drain, self.close = pipe.write, pipe.drain, pipe.close

    @property
    def waiting(self) -> int:
        """Bytes that the command has not taken yet."""
        return self._pipe.transport.get_write_buffer_size()


class TerminalInput:
    """What is typed on a terminal; event loops do not take one for a pipe."""

    def __init__(self, master: int) -> None:
        self._master = master
        self._loop = asyncio.get_running_loop()
        self._bytes = bytearray()
        self._stopped = False
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def waiting(self) -> int:
        """Bytes that the command has not taken yet."""
        return len(self._bytes)

    def write(self, data: bytes) -> None:
        """Type; nothing after `stop`."""
        if self._stopped:
            return
        self._bytes += data
        self._empty.clear()
        self._type()

    def _type(self) -> None:
        try:
            del self._bytes[: os.write(self._master, self._bytes)]
        except BlockingIOError:
            pass  # the terminal is full: the rest is typed once it can be written again
        except OSError:  # the command has ended
            self._bytes.clear()
        if self._bytes:
            self._loop.add_writer(self._master, self._type)
        else:
            self._loop.remove_writer(self._master)
            self._empty.set()

    async def drain(self) -> None:
        """Wait until all was typed."""
        await self._empty.wait()

    def close(self) -> None:
        """Press ^D, which ends the input where a line begins."""
        self.write(b"\x04")

    def stop(self) -> None:
        """Type no more: the terminal is about to be closed, and its number may soon be another's."""
        self._stopped = True
        self._bytes.clear()
        self._empty.set()
        if not self._loop.is_closed():  # a session that was still open may be collected after its loop
            self._loop.remove_writer(self._master)


class Located(Protocol):
    """A task that a command runs beside."""

    @property
    def task(self) -> mesos.TaskInfo:
        """What runs."""
        ...

    @property
    def place(self) -> RunLocation:
        """Where it runs."""
        ...


@dataclass(slots=True)
class Session:
    """One command. ``status`` is its raw wait status when it has ended."""

    parent: str
    name: str
    command: mesos.CommandInfo
    output: Output
    terminal: Terminal | None
    status: int | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    process: asyncio.subprocess.Process | None = None
    input: PipeInput | TerminalInput | None = None
    killed: bool = False
    _master: int = -1
    _early: bytearray = field(default_factory=bytearray)
    _closed_early: bool = False

    # --- input ---

    def feed(self, data: bytes) -> None:
        """Pass on a piece of standard input; nothing is its end."""
        if self.input is None:
            self._early += data
            self._closed_early |= not data
        elif data:
            self.input.write(data)
        else:
            self.input.close()

    @property
    def crowded(self) -> bool:
        """Whether the command reads slower than its input comes."""
        return self.input is not None and self.input.waiting > _UNWRITTEN_BYTES

    async def drained(self) -> None:
        """Wait until the command has read most of its input, or has ended."""
        with contextlib.suppress(OSError):
            if self.input is not None:
                await self.input.drain()

    def resize(self, terminal: Terminal) -> None:
        """Tell the command of another size of its terminal."""
        if self._master >= 0:
            size = struct.pack("HHHH", terminal.rows, terminal.columns, 0, 0)
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    # --- the process ---

    def kill(self) -> None:
        """End the command and what it has started."""
        self.killed = True
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    async def run(self, run: Located, companions: Companions) -> None:
        """Run the command to its end."""
        try:
            await self._start(run, companions)
        except OSError as error:
            self.output.begin()
            file = file_and_argv(self.command)[0]
            self.output.write("STDERR", f"Failed to execute '{file}': {error.strerror}\n".encode())
            self.status = NOT_EXECUTED
            return
        self.output.begin()
        self._pass_early_input()
        try:
            if self.killed:
                self.kill()
            await self._copy()
        finally:
            self.kill()
            await companions.end_in_docker(run.task, self._id)
            self._close()

    @property
    def _id(self) -> str:
        return f"{self.parent}.{self.name}"

    def _close(self) -> None:
        if isinstance(self.input, TerminalInput):
            self.input.stop()
        elif self.input is not None:
            self.input.close()
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def _pass_early_input(self) -> None:
        if self._early:
            self.feed(bytes(self._early))
        if self._closed_early:
            self.feed(b"")

    async def _copy(self) -> None:
        """Pass on output until the command ends; what it has started may hold the streams open."""
        assert self.process is not None
        streams = {"STDOUT": self.process.stdout, "STDERR": self.process.stderr}
        reading = [self._read(name, stream) for name, stream in streams.items() if stream is not None]
        copying = [asyncio.ensure_future(each) for each in reading or [self._read_terminal()]]
        try:
            await _exited(self.process.pid)
            self.kill()
            await asyncio.wait(copying, timeout=_DRAIN_SECONDS)
            code = await asyncio.wait_for(self.process.wait(), _DRAIN_SECONDS)
            self.status = -code if code < 0 else code << 8
        finally:
            for each in copying:
                each.cancel()
            # They must have let go of what they read before it is closed.
            await asyncio.gather(*copying, return_exceptions=True)

    async def _read(self, name: str, stream: asyncio.StreamReader) -> None:
        while piece := await stream.read(_PIECE_BYTES):
            self.output.write(name, piece)
            await self.output.writable()

    async def _read_terminal(self) -> None:
        while True:
            await _readable(self._master)
            try:
                piece = os.read(self._master, _PIECE_BYTES)
            except BlockingIOError:
                continue
            except OSError:  # nobody has the terminal any more
                return
            self.output.write("STDOUT", piece)
            await self.output.writable()

    async def _start(self, run: Located, companions: Companions) -> None:
        options: dict[str, Any] = {
            "cwd": run.place.sandbox,
            "env": companions.environment(run.task, run.place),
        }
        has_terminal = self.terminal is not None
        file, argv = companions.command(run.task, run.place, self.command, has_terminal, self._id)
        if self.terminal is None:
            options |= dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
            self.process = await asyncio.create_subprocess_exec(
                *argv, executable=file, start_new_session=True, **options
            )
            assert self.process.stdin is not None
            self.input = PipeInput(self.process.stdin)
            return
        self._master, slave = pty.openpty()
        os.set_blocking(self._master, False)
        self.resize(self.terminal)
        try:
            if (user := companions.user_of(run.task, run.place)) is not None:
                os.chown(slave, *user)
            options |= {"env": {"TERM": "xterm", **options["env"]}}
            options |= dict.fromkeys(("stdin", "stdout", "stderr"), slave)
            self.process = await asyncio.create_subprocess_exec(*argv, executable=file, **options)
        finally:
            os.close(slave)
        self.input = TerminalInput(self._master)


async def _readable(handle: int) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(handle, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(handle)


async def _exited(pid: int) -> None:
    """Wait for the end of a process: not also for the streams that its children hold open."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await _readable(handle)
    finally:
        os.close(handle)


class Sessions:
    """All sessions of an agent, by the ids of the task's container and their own."""

    def __init__(self, find: Callable[[str], Run | None], companions: Companions) -> None:
        """``find`` returns the run in a container whose task is running."""
        self._find = find
        self._companions = companions
        self._sessions: dict[tuple[str, str], Session] = {}
        self._jobs: set[asyncio.Task[None]] = set()

    def get(self, parent: str, name: str) -> Session | None:
        """Return a session that runs, or has ended lately."""
        return self._sessions.get((parent, name))

    @property
    def full(self) -> bool:
        """Whether no more sessions are taken."""
        return len(self._jobs) >= MOST

    def begin(
        self, parent: str, name: str, command: mesos.CommandInfo, output: Output, terminal: Terminal | None
    ) -> Session | None:
        """Start a session, unless no task is running in the container ``parent``."""
        run = self._find(parent)
        if run is None:
            return None
        session = self._sessions[parent, name] = Session(parent, name, command, output, terminal)
        job = asyncio.get_running_loop().create_task(self._run(session, run))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return session

    async def _run(self, session: Session, run: Run) -> None:
        try:
            await session.run(run, self._companions)
        finally:
            session.ended.set()
            session.output.end()
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        over = [key for key, session in self._sessions.items() if session.ended.is_set()]
        for key in over[: max(0, len(over) - MOST_ENDED)]:
            del self._sessions[key]

    def end_of(self, parent: str) -> None:
        """End the sessions of a task that has ended."""
        for (container, _), session in self._sessions.items():
            if container == parent:
                session.kill()

    async def stop(self) -> None:
        """End all sessions."""
        for session in self._sessions.values():
            session.kill()
        if self._jobs:
            await asyncio.wait(self._jobs, timeout=_DRAIN_SECONDS)
