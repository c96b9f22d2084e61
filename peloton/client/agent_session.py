"""Run a command beside a task: a nested container session of the Mesos agent that runs the task."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from peloton.client import agent_calls
from peloton.client.agent_calls import INPUT_HEADERS, LARGEST_ANSWER_BYTES, Json, Nested, Output
from peloton.client.sandbox import Agent, AgentUnreachable
from peloton.errors import NotFound, PelotonError

if TYPE_CHECKING:
    import requests

_CHUNK_BYTES = 64 * 1024
_CREDENTIALS = "give --agentAuth FILE, or right ones"
Write = Callable[[str, bytes], object]
"""Takes the name of a stream, STDOUT or STDERR, and what comes from it."""


@dataclass(frozen=True, slots=True)
class AgentSession:
    """One command in the container of a task; `size` is that of its terminal, in rows and columns."""

    agent: Agent
    container: str
    size: agent_calls.Size | None = None
    name: str = field(default_factory=lambda: str(uuid.uuid4()))

    def run(self, command: Json, write: Write, read: Callable[[], bytes] | None = None) -> int:
        """Run a command to its end and return its exit code, 128 and the number for a signal.

        `read` returns the next piece of its standard input, nothing at its end; it is called by another
        thread. Raises NotFound where the task is not there, AgentUnreachable, and PelotonError for a refusal.
        """
        sent = _Input(self, read) if read is not None else None
        try:
            self._copy(self._nested.launch(command, self.size), write, sent)
        except AgentUnreachable:
            if sent is None or sent.failure is None:
                raise
        if sent is not None and sent.failure is not None:
            raise sent.failure
        return self._exit_code()

    def _copy(self, launch: Json, write: Write, sent: _Input | None) -> None:
        connected = None if sent is None else sent.shown_by
        with _Answer(self, launch, agent_calls.STREAM_HEADERS, connected=connected) as response:
            if sent is not None:
                threading.Thread(target=sent.send, daemon=True).start()
            output = Output(self.agent)
            for piece in response.iter_content(_CHUNK_BYTES):
                for stream, data in output.feed(piece):
                    write(stream, data)

    def resize(self, rows: int, columns: int) -> None:
        """Tell of another size of the terminal."""
        self.post_input(iter([self._nested.first_record(), agent_calls.resized((rows, columns))]))

    def has_ended(self) -> bool:
        """Return whether the command has ended, or ends within the time of a call."""
        try:
            self._exit_code(self.agent.timeout)
        except NotFound:  # its task has ended, and it with it
            return True
        except AgentUnreachable:
            return False
        return True

    def _exit_code(self, seconds: float | None = None) -> int:
        from peloton.client.blocking_http import head_of

        with _Answer(self, self._nested.wait(), agent_calls.PLAIN_HEADERS, seconds) as response:
            return agent_calls.exit_code(head_of(response, LARGEST_ANSWER_BYTES), self.agent)

    def post_input(
        self, body: Iterator[bytes], connected: Callable[[socket.socket], object] | None = None
    ) -> PelotonError | None:
        """Send input to its end; return what the agent said against it. `connected` is given the socket."""
        from requests import RequestException

        from peloton.client.blocking_http import answer, head_of, reason_of

        forever = (None, None)
        try:
            with (
                _made(self.agent, connected) as made,
                answer(made, "POST", self._address(), forever, data=body, headers=INPUT_HEADERS) as told,
            ):
                if told.status_code == 200:
                    return None
                text = head_of(told, LARGEST_ANSWER_BYTES)
        except RequestException as error:
            return self.deaf(reason_of(error))
        if told.status_code == 401:
            return agent_calls.refusal(self.agent, told.status_code, text, _CREDENTIALS)
        return self.deaf(" ".join(text.decode(errors="replace").split()) or f"status {told.status_code}")

    def deaf(self, why: str) -> PelotonError:
        """Return the failure of a command whose input no longer arrives."""
        return AgentUnreachable(agent_calls.no_more_input(self.agent, why))

    def first_input(self) -> bytes:
        """Return the record that input begins with."""
        return self._nested.first_record()

    @property
    def _nested(self) -> Nested:
        return Nested(self.name, self.container)

    def _address(self) -> str:
        from peloton.client.blocking_http import address_of

        return address_of(self.agent.access.scheme, self.agent.host, self.agent.port, agent_calls.PATH)


class _Input:
    """What is typed, sent by a thread of its own.

    Where the agent takes no more of it while the command goes on, the output is ended, and `failure` says
    why: who types would wait for ever.
    """

    def __init__(self, session: AgentSession, read: Callable[[], bytes]) -> None:
        self.failure: PelotonError | None = None
        self._session = session
        self._read = read
        self._shown: socket.socket | None = None
        self._sent: socket.socket | None = None
        self._at_end = False

    def shown_by(self, connection: socket.socket) -> None:
        """Take the connection by which the output comes."""
        self._shown = connection

    def _sent_by(self, connection: socket.socket) -> None:
        self._sent = connection

    def send(self) -> None:
        """Send all of the input."""
        failure = self._session.post_input(self._records(), self._sent_by)
        if failure is None and not self._at_end:
            failure = self._session.deaf("it was answered early")
        if failure is None or self._session.has_ended():
            return
        self.failure = failure
        if self._shown is not None:
            with suppress(OSError):  # it is over already
                # Not by TLS' own way of ending, which waits for the thread that reads.
                socket.socket.shutdown(self._shown, socket.SHUT_RDWR)

    def _records(self) -> Iterator[bytes]:
        yield self._session.first_input()
        while not self._is_answered():
            piece = self._read()
            self._at_end = not piece
            yield agent_calls.typed(piece)
            if self._at_end:
                return

    def _is_answered(self) -> bool:
        """Return whether the agent has answered, or left, before the input's end."""
        made = self._sent
        if made is None or isinstance(made, ssl.SSLSocket):  # by TLS, tickets come unasked
            return False
        return bool(select.select([made], [], [], 0)[0])


class _Answer:
    """The answer to a call, while it comes, silent for `seconds` at most. Raises what a refusal means."""

    def __init__(
        self,
        session: AgentSession,
        call: Json,
        headers: dict[str, str],
        seconds: float | None = None,
        connected: Callable[[socket.socket], object] | None = None,
    ) -> None:
        self._session = session
        self._call = call
        self._headers = headers
        self._seconds = seconds
        self._connected = connected
        self._open = ExitStack()

    def __enter__(self) -> requests.Response:
        from requests import RequestException

        from peloton.client.blocking_http import answer, head_of, reason_of

        agent = self._session.agent
        # It may be silent for as long as the command runs, where no limit is given.
        patience = (agent.timeout, self._seconds)
        address = self._session._address()
        with ExitStack() as stack:
            try:
                made = stack.enter_context(_made(agent, self._connected))
                asked = answer(made, "POST", address, patience, json=self._call, headers=self._headers)
                response = stack.enter_context(asked)
                if response.status_code != 200:
                    told = head_of(response, LARGEST_ANSWER_BYTES)
                    raise agent_calls.refusal(agent, response.status_code, told, _CREDENTIALS)
            except RequestException as error:
                raise AgentUnreachable(f"{agent} cannot be reached: {reason_of(error)}") from error
            self._open = stack.pop_all()
        return response

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        from requests import RequestException

        from peloton.client.blocking_http import reason_of

        self._open.close()
        if isinstance(error, RequestException):
            broke = f"{self._session.agent}: the connection broke: {reason_of(error)}"
            raise AgentUnreachable(broke) from error


def _made(agent: Agent, connected: Callable[[socket.socket], object] | None = None) -> requests.Session:
    from peloton.client.blocking_http import session  # slow to import

    return session(agent.access.tls, agent.access.headers, connected)
