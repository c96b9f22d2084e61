"""Run a command beside a task: a nested container session of the Mesos agent that runs the task."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from peloton.client import agent_calls
from peloton.client.agent_calls import INPUT_HEADERS, LARGEST_ANSWER_BYTES, Json, Nested, Output
from peloton.client.sandbox import Agent, AgentUnreachable

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
        launch = self._nested.launch(command, self.size)
        with _Answer(self, launch, agent_calls.STREAM_HEADERS) as response:
            if read is not None:
                threading.Thread(target=self._send_input, args=(read,), daemon=True).start()
            output = Output(self.agent)
            for piece in response.iter_content(_CHUNK_BYTES):
                for stream, data in output.feed(piece):
                    write(stream, data)
        return self._exit_code()

    def resize(self, rows: int, columns: int) -> None:
        """Tell of another size of the terminal."""
        self._post_input(iter([self._nested.first_record(), agent_calls.resized((rows, columns))]))

    def _exit_code(self) -> int:
        from peloton.client.blocking_http import head_of

        with _Answer(self, self._nested.wait(), agent_calls.PLAIN_HEADERS) as response:
            return agent_calls.exit_code(head_of(response, LARGEST_ANSWER_BYTES), self.agent)

    def _send_input(self, read: Callable[[], bytes]) -> None:
        self._post_input(self._input(read))

    def _input(self, read: Callable[[], bytes]) -> Iterator[bytes]:
        yield self._nested.first_record()
        while True:
            piece = read()
            yield agent_calls.typed(piece)
            if not piece:
                return

    def _post_input(self, body: Iterator[bytes]) -> None:
        """Send input. A failure shows in the output too: the session ends."""
        from requests import RequestException

        from peloton.client.blocking_http import answer

        forever = (None, None)
        try:
            with (
                _made(self.agent) as made,
                answer(made, "POST", self._address(), forever, data=body, headers=INPUT_HEADERS),
            ):
                return
        except RequestException:
            return

    @property
    def _nested(self) -> Nested:
        return Nested(self.name, self.container)

    def _address(self) -> str:
        from peloton.client.blocking_http import address_of

        return address_of(self.agent.access.scheme, self.agent.host, self.agent.port, agent_calls.PATH)


class _Answer:
    """The answer to a call, while it comes. Raises what a refusal means."""

    def __init__(self, session: AgentSession, call: Json, headers: dict[str, str]) -> None:
        self._session = session
        self._call = call
        self._headers = headers
        self._open = ExitStack()

    def __enter__(self) -> requests.Response:
        from requests import RequestException

        from peloton.client.blocking_http import answer, head_of, reason_of

        agent = self._session.agent
        patience = (agent.timeout, None)  # it may be silent for as long as the command runs
        address = self._session._address()
        with ExitStack() as stack:
            try:
                made = stack.enter_context(_made(agent))
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


def _made(agent: Agent) -> requests.Session:
    from peloton.client.blocking_http import session  # slow to import

    return session(agent.access.tls, agent.access.headers)
