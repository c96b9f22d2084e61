"""The pool of an agent's supervisors: idle ones, those with a run, and the fork server that starts them.

See ``supervisor`` for their protocol. A supervisor whose run has ended is used again, so there are
as many as tasks ran at a time. The fork server is started when a supervisor is needed and there is none; when
it dies, the supervisors and their tasks live on.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from minicluster.mesos.agent import supervisor

AT_ONCE = 8
"""How many runs may be between their order and their start: more would only compete for the processors."""
MAX_IDLE = 16
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Supervised:
    """A supervisor has the run."""

    pid: int


@dataclass(frozen=True, slots=True)
class Started:
    """The task runs."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The task has ended; how is what its supervisor wrote down as JSON."""

    outcome: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The task did not start; the supervisor gives the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The supervisor died, or none was started; the claim shows whether the task started."""


Event = Supervised | Started | Ended | Failed | Gone


@dataclass(frozen=True, slots=True)
class Order(Generic[T]):
    """A run to be started: whose it is, and the claim that lets it begin, with its specification in it."""

    run: T
    claim: str


@dataclass(slots=True)
class _Supervisor(Generic[T]):
    """``pid`` is 0 until it is there."""

    channel: socket.socket
    order: Order[T] | None = None
    starting: bool = False
    pid: int = 0


class Supervisors(Generic[T]):
    """All supervisors of one agent process."""

    def __init__(self, work_dir: Path, report: Callable[[T, Event], None], enclosing: bool = False) -> None:
        """``work_dir`` is for those who list processes.

        ``report`` is called with the events of each order; ``enclosing``: orders may ask for namespaces.
        """
        self._work_dir = work_dir
        self._enclosing = enclosing
        self._report = report
        self._server: _ForkServer | None = None
        self._by_fd: dict[int, _Supervisor[T]] = {}
        self._idle: list[_Supervisor[T]] = []
        self._starting = 0
        self._waiting: deque[Order[T]] = deque()

    def start(self, order: Order[T]) -> None:
        """Start a run as soon as it is its turn."""
        self._waiting.append(order)
        self._hand_out()

    def withdraw(self, run: T) -> bool:
        """Forget a run's order; return False when it is with a supervisor already, or there is none."""
        for order in self._waiting:
            if order.run is run:
                self._waiting.remove(order)
                return True
        return False

    def _hand_out(self) -> None:
        while self._waiting and self._starting < AT_ONCE:
            order = self._waiting.popleft()
            try:
                one = self._idle.pop() if self._idle else self._new()
            except OSError as error:
                self._report(order.run, Failed(f"there is no supervisor for it: {error}"))
                continue
            one.order, one.starting = order, True
            self._starting += 1
            # Where it is gone, its end is read next, and the run is started again.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                one.channel.send(os.fsencode(order.claim))
            if one.pid:
                self._report(order.run, Supervised(one.pid))

    def _new(self) -> _Supervisor[T]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            self._request_fork(theirs)
        one: _Supervisor[T] = _Supervisor(ours)
        self._by_fd[ours.fileno()] = one
        asyncio.get_running_loop().add_reader(ours.fileno(), self._on_readable, one)
        return one

    def _request_fork(self, theirs: socket.socket) -> None:
        """Have a supervisor forked. Where the fork server is gone by now, use a new one."""
        while True:
            if self._server is None:
                self._server = _ForkServer(self._work_dir, self._server_gone, self._enclosing)
            try:
                self._server.fork(theirs)
                return
            except (BrokenPipeError, ConnectionResetError):
                self._server_gone()

    def _server_gone(self) -> None:
        if self._server is not None:
            self._server.end()
            self._server = None

    def _on_readable(self, one: _Supervisor[T]) -> None:
        try:
            message = one.channel.recv(supervisor.LONGEST_MESSAGE_BYTES)
        except BlockingIOError:
            return
        except ConnectionResetError:
            message = b""
        word, _, rest = message.decode().partition(" ")
        if word == "pid":
            one.pid = int(rest)
            if one.order is not None:
                self._report(one.order.run, Supervised(one.pid))
        elif word == "started":
            self._has_started(one)
            if one.order is not None:
                self._report(one.order.run, Started())
        elif word in ("ended", "failed"):
            self._done(one, Ended(rest) if word == "ended" else Failed(rest))
        else:
            self._lose(one)
        self._hand_out()

    def _has_started(self, one: _Supervisor[T]) -> None:
        if one.starting:
            one.starting = False
            self._starting -= 1

    def _done(self, one: _Supervisor[T], event: Event) -> None:
        self._has_started(one)
        order, one.order = one.order, None
        if len(self._idle) < MAX_IDLE and one.pid:
            self._idle.append(one)
        else:
            self._close(one)
        if order is not None:
            self._report(order.run, event)

    def _lose(self, one: _Supervisor[T]) -> None:
        self._has_started(one)
        if one in self._idle:
            self._idle.remove(one)
        self._close(one)
        if one.order is not None:
            self._report(one.order.run, Gone())

    def _close(self, one: _Supervisor[T]) -> None:
        if self._by_fd.pop(one.channel.fileno(), None) is not None:
            asyncio.get_running_loop().remove_reader(one.channel.fileno())
            one.channel.close()

    def stop(self) -> None:
        """Release all supervisors: each ends when its run, if it has one, has ended."""
        self._waiting.clear()
        for one in list(self._by_fd.values()):
            self._close(one)
        self._server_gone()


class _ForkServer:
    """The process that supervisors are forked from."""

    def __init__(self, work_dir: Path, gone: Callable[[], None], enclosing: bool) -> None:
        """``gone`` is called when it has died. Raise OSError when it cannot be started."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            argv = [sys.executable, "-I", "-S", supervisor.__file__, str(theirs.fileno()), str(work_dir)]
            self._process = subprocess.Popen(
                [*argv, "enclosing"] if enclosing else argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )
        ours.setblocking(False)
        self._channel = ours
        asyncio.get_running_loop().add_reader(ours.fileno(), gone)

    def fork(self, theirs: socket.socket) -> None:
        """Have a supervisor forked for a socket.

        Raise BrokenPipeError or ConnectionResetError when this process is gone.
        """
        fds = array.array("i", [theirs.fileno()])
        self._channel.sendmsg([b"+"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])

    def end(self) -> None:
        """End and reap it. Requests that it did not serve are repeated by the agent."""
        asyncio.get_running_loop().remove_reader(self._channel.fileno())
        self._channel.close()
        self._process.kill()
        self._process.wait()
