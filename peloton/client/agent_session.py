"""Run a command beside a task: a nested container session of the Mesos agent that runs the task."""

from __future__ import annotations

import base64
import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from peloton.client.sandbox import Agent, AgentUnreachable
from peloton.errors import NotFound, PelotonError, Unauthenticated
from peloton.plainjson import parse_json
from peloton.recordio import RECORDIO, MalformedStream, RecordParser, frame

if TYPE_CHECKING:
    import requests

_API = "/api/v1"
_CHUNK_BYTES = 64 * 1024
_LARGEST_ANSWER_BYTES = 64 * 1024
_JSON = "application/json"
_PLAIN = {"Accept": _JSON, "Content-Type": _JSON}
_STREAM = {"Accept": RECORDIO, "Message-Accept": _JSON, "Content-Type": _JSON}
"""Headers of calls whose answer is one message, and of those whose answer is a stream of them: an agent
refuses what belongs to the other kind."""
_LAUNCH = "LAUNCH_NESTED_CONTAINER_SESSION"
_IN_SANDBOX = re.compile(r"/runs/([^/]+)(?:/|\Z)")
Write = Callable[[str, bytes], object]
"""Takes the name of a stream, STDOUT or STDERR, and what comes from it."""
Json = dict[str, Any]


def container_of(paths: Sequence[str]) -> str:
    """Return the id of the container that a sandbox with these files belongs to. Raises NotFound."""
    found = next((match[1] for path in paths if (match := _IN_SANDBOX.search(path))), "latest")
    if found == "latest":
        raise NotFound("its container is not known: its agent does not list the run (any more)")
    return found


def command_info(words: Sequence[str]) -> Json:
    """Return a command: one word is a line for the shell, several are executed as they are."""
    if len(words) == 1:
        return {"shell": True, "value": words[0]}
    return {"shell": False, "value": words[0], "arguments": list(words)}


@dataclass(frozen=True, slots=True)
class AgentSession:
    """One command in the container of a task; `size` is that of its terminal, in rows and columns."""

    agent: Agent
    container: str
    size: tuple[int, int] | None = None
    name: str = field(default_factory=lambda: str(uuid.uuid4()))

    def run(self, command: Json, write: Write, read: Callable[[], bytes] | None = None) -> int:
        """Run a command to its end and return its exit code, 128 and the number for a signal.

        `read` returns the next piece of its standard input, nothing at its end; it is called by another
        thread. Raises NotFound where the task is not there, AgentUnreachable, and PelotonError for a refusal.
        """
        with self._stream(command) as response:
            if read is not None:
                threading.Thread(target=self._send_input, args=(read,), daemon=True).start()
            self._copy(response, write)
        return self._exit_code()

    def resize(self, rows: int, columns: int) -> None:
        """Tell of another size of the terminal."""
        size = {"window_size": {"rows": rows, "columns": columns}}
        message = {"type": "CONTROL", "control": {"type": "TTY_INFO", "tty_info": size}}
        self._post_input(iter([self._first_record(), self._input_record(message)]))

    # --- output ---

    def _stream(self, command: Json) -> Any:
        call: Json = {"container_id": self._id(), "command": command}
        if self.size is not None:
            rows, columns = self.size
            size = {"window_size": {"rows": rows, "columns": columns}}
            call["container"] = {"type": "MESOS", "tty_info": size}
        return _Answer(self, {"type": _LAUNCH, _LAUNCH.lower(): call})

    def _copy(self, response: requests.Response, write: Write) -> None:
        records = RecordParser()
        try:
            for piece in response.iter_content(_CHUNK_BYTES):
                for record in records.feed(piece):
                    message = parse_json(record)
                    if message["type"] == "DATA":
                        write(message["data"]["type"], base64.b64decode(message["data"]["data"]))
        except (MalformedStream, ValueError, KeyError, TypeError) as error:
            raise PelotonError(f"{self.agent} sends output in an unknown form: {error!r}") from error

    def _exit_code(self) -> int:
        from peloton.client.blocking_http import head_of

        kind = "WAIT_NESTED_CONTAINER"
        with _Answer(self, {"type": kind, kind.lower(): {"container_id": self._id()}}) as response:
            body = head_of(response, _LARGEST_ANSWER_BYTES)
        try:
            status = parse_json(body)[kind.lower()].get("exit_status")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise PelotonError(f"{self.agent} tells the end in an unknown form: {error!r}") from error
        if status is None:
            raise PelotonError("how the command ended is not known: its task has ended, or its agent")
        return int(status) >> 8 if int(status) & 0x7F == 0 else 128 + (int(status) & 0x7F)

    # --- input ---

    def _send_input(self, read: Callable[[], bytes]) -> None:
        self._post_input(self._input(read))

    def _input(self, read: Callable[[], bytes]) -> Iterator[bytes]:
        yield self._first_record()
        while True:
            piece = read()
            data = {"type": "STDIN", "data": base64.b64encode(piece).decode()}
            yield self._input_record({"type": "DATA", "data": data})
            if not piece:
                return

    def _post_input(self, body: Iterator[bytes]) -> None:
        """Send input. A failure shows in the output too: the session ends."""
        from requests import RequestException

        from peloton.client.blocking_http import answer

        headers = {"Content-Type": RECORDIO, "Message-Content-Type": _JSON, "Accept": _JSON}
        forever = (None, None)
        try:
            with (
                _made(self.agent) as made,
                answer(made, "POST", self._address(), forever, data=body, headers=headers),
            ):
                return
        except RequestException:
            return

    def _first_record(self) -> bytes:
        return _record({"type": "CONTAINER_ID", "container_id": self._id()})

    def _input_record(self, message: Json) -> bytes:
        return _record({"type": "PROCESS_IO", "process_io": message})

    # --- the agent ---

    def _id(self) -> Json:
        return {"value": self.name, "parent": {"value": self.container}}

    def _address(self) -> str:
        from peloton.client.blocking_http import address_of

        return address_of(self.agent.access.scheme, self.agent.host, self.agent.port, _API)


class _Answer:
    """The answer to a call, while it comes. Raises what a refusal means."""

    def __init__(self, session: AgentSession, call: Json) -> None:
        self._session = session
        self._call = call
        self._open = ExitStack()

    def __enter__(self) -> requests.Response:
        from requests import RequestException

        from peloton.client.blocking_http import answer, reason_of

        agent = self._session.agent
        patience = (agent.timeout, None)  # it may be silent for as long as the command runs
        headers = _STREAM if self._call["type"] == _LAUNCH else _PLAIN
        address = self._session._address()
        with ExitStack() as stack:
            try:
                made = stack.enter_context(_made(agent))
                asked = answer(made, "POST", address, patience, json=self._call, headers=headers)
                response = stack.enter_context(asked)
                if response.status_code != 200:
                    raise _refusal(agent, response)
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


def _refusal(agent: Agent, response: requests.Response) -> PelotonError:
    from peloton.client.blocking_http import head_of

    told = head_of(response, _LARGEST_ANSWER_BYTES).decode(errors="replace")
    text = " ".join(told.split()) or f"status {response.status_code}"
    if response.status_code == 404:
        return NotFound(f"{agent}: {text}: the task has ended, or the agent serves no sessions")
    if response.status_code == 401:
        return Unauthenticated(f"{agent} asks for credentials: give --agentAuth FILE, or right ones")
    return PelotonError(f"{agent} runs no command in this container: {text}")


def _record(call: Json) -> bytes:
    value = {"type": "ATTACH_CONTAINER_INPUT", "attach_container_input": call}
    return frame(json.dumps(value, separators=(",", ":")).encode())
