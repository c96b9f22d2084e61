"""The network between the daemons: calls with delays and, where wanted, losses, repetitions, partitions.

A call names a role; it goes to the process that leads when it arrives. A handler answers at once, by its
result or a PelotonError, or later, by the `Reply` that it gets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from peloton.errors import PelotonError, Unavailable
from simulator.world.kernel import Kernel, Life, Timer

Done = Callable[[Any], None]
"""Gets the answer of a call: a value, or a PelotonError."""
LATER: Any = object()
"""Returned by a handler that answers by its Reply."""


class Caller(NamedTuple):
    """Who calls, as metadata of the call."""

    life: Life
    term: int

    @property
    def instance(self) -> str:
        """The name of the process."""
        return self.life.name


class Server(Protocol):
    """A process that answers calls: each method is a method of it, `on_<method>`."""

    life: Life


class Directory(Protocol):
    """Who leads."""

    def leader(self, role: str, caller: str) -> Server | None:
        """Return the process that leads a role, as far as a caller knows; None where none does."""
        ...


class Fates(Protocol):
    """What becomes of messages."""

    def delays(self, sender: str, receiver: str) -> tuple[float, ...]:
        """Return when copies of a message arrive, in seconds from now; none where it is lost."""
        ...


STEADY_SECONDS = 0.001
"""After so long each message arrives where nothing fails."""


class Reply:
    """The way back of a call. The first answer counts."""

    __slots__ = ("_call", "_network", "_server")

    def __init__(self, network: Network, call: _Call, server: Server) -> None:
        self._network = network
        self._call = call
        self._server = server

    @property
    def wanted(self) -> bool:
        """Whether the caller still waits."""
        return not self._call.over and not self._call.caller.life.ended

    def __call__(self, answer: Any) -> None:
        """Send the answer."""
        self._network.answer(self._call, self._server, answer)


class _Call:
    """A call under way."""

    __slots__ = ("args", "caller", "done", "method", "over", "timer")

    def __init__(self, caller: Caller, method: str, args: tuple[Any, ...], done: Done) -> None:
        self.caller = caller
        self.method = method
        self.args = args
        self.done = done
        self.over = False
        self.timer: Timer | None = None


class Network:
    """Carries calls between processes."""

    def __init__(self, kernel: Kernel, directory: Directory, fates: Fates | None = None) -> None:
        """Without `fates` each message arrives once; what is answered at once is then one event."""
        self._kernel = kernel
        self._directory = directory
        self.fates = fates
        self.lossy = fates is not None
        """Whether messages may be lost, so that calls have time-outs."""
        self.calls = 0

    def call(
        self, caller: Caller, role: str, method: str, args: tuple[Any, ...], done: Done, timeout: float = 10.0
    ) -> None:
        """Call the leader of a role; `done` gets the answer, or Unavailable after `timeout` seconds."""
        self.calls += 1
        call = _Call(caller, method, args, done)
        if self.fates is None:
            self._send(call, role, STEADY_SECONDS)
            return
        call.timer = self._kernel.after(timeout, caller.life, self._timed_out, call)
        for delay in self.fates.delays(caller.instance, role):
            self._send(call, role, delay)

    def _send(self, call: _Call, role: str, delay: float) -> None:
        life = call.caller.life
        server = self._directory.leader(role, life.name)
        if server is None:
            self._kernel.after(delay, life, self._end, call, Unavailable(f"no {role} leads"))
        else:
            self._kernel.after(delay, server.life, self._arrive, call, server)

    def _arrive(self, call: _Call, server: Server) -> None:
        """Have a call answered by the process that it has reached."""
        reply = Reply(self, call, server)
        try:
            answer = getattr(server, call.method)(call.caller, reply, *call.args)
        except PelotonError as error:
            answer = error
        if answer is LATER:
            return
        if self.fates is None and not call.caller.life.ended:
            call.done(answer)
        else:
            self.answer(call, server, answer)

    def answer(self, call: _Call, server: Server, answer: Any) -> None:
        """Send an answer back."""
        life = call.caller.life
        if self.fates is None:
            self._kernel.after(STEADY_SECONDS, life, self._end, call, answer)
            return
        self._kernel.point(server.life, f"before it answers {call.method}")
        for delay in self.fates.delays(server.life.name, call.caller.instance)[:1]:
            self._kernel.after(delay, life, self._end, call, answer)

    def _timed_out(self, call: _Call) -> None:
        self._end(call, Unavailable(f"{call.method}: no answer in time"))

    def _end(self, call: _Call, answer: Any) -> None:
        if call.over:
            return
        call.over = True
        if call.timer is not None:
            call.timer.cancel()
        call.done(answer)
