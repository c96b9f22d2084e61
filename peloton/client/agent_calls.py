"""The calls of a nested container session of a Mesos agent, as data: what is sent, and what answers mean."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from peloton.errors import NotFound, PelotonError, Unauthenticated
from peloton.plainjson import parse_json
from peloton.recordio import RECORDIO, MalformedStream, RecordParser, frame

PATH = "/api/v1"
LARGEST_ANSWER_BYTES = 64 * 1024
_JSON = "application/json"
PLAIN_HEADERS = {"Accept": _JSON, "Content-Type": _JSON}
STREAM_HEADERS = {"Accept": RECORDIO, "Message-Accept": _JSON, "Content-Type": _JSON}
"""Headers of calls whose answer is one message, and of those whose answer is a stream of them: an agent
refuses what belongs to the other kind."""
INPUT_HEADERS = {"Content-Type": RECORDIO, "Message-Content-Type": _JSON, "Accept": _JSON}
"""Headers of calls whose request is a stream of messages."""
STDERR = "STDERR"
_IN_SANDBOX = re.compile(r"/runs/([^/]+)(?:/|\Z)")
Json = dict[str, Any]
Size = tuple[int, int]
"""Rows and columns of a terminal."""


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
class Nested:
    """A nested container by its name and that of the task's container."""

    name: str
    container: str

    def launch(self, command: Json, size: Size | None) -> Json:
        """Return the call that runs a command and streams its output; with `size`, on a terminal."""
        call: Json = {"container_id": self._id(), "command": command}
        if size is not None:
            call["container"] = {"type": "MESOS", "tty_info": _window(size)}
        return _call("LAUNCH_NESTED_CONTAINER_SESSION", call)

    def wait(self) -> Json:
        """Return the call that is answered with how the command has ended."""
        return _call("WAIT_NESTED_CONTAINER", {"container_id": self._id()})

    def first_record(self) -> bytes:
        """Return what a stream of input begins with."""
        return _input({"type": "CONTAINER_ID", "container_id": self._id()})

    def _id(self) -> Json:
        return {"value": self.name, "parent": {"value": self.container}}


def typed(data: bytes) -> bytes:
    """Return the record of a piece of input; an empty one ends it."""
    told = {"type": "STDIN", "data": base64.b64encode(data).decode()}
    return _process_io({"type": "DATA", "data": told})


def resized(size: Size) -> bytes:
    """Return the record of another size of the terminal."""
    return _process_io({"type": "CONTROL", "control": {"type": "TTY_INFO", "tty_info": _window(size)}})


@dataclass(slots=True)
class Output:
    """Reads the stream that answers `Nested.launch`."""

    agent: object
    """Named in errors."""
    _records: RecordParser = field(default_factory=RecordParser)

    def feed(self, piece: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield the output that a piece completes: the stream's name, STDOUT or STDERR, and bytes.

        Raises PelotonError for what is no such stream.
        """
        try:
            for record in self._records.feed(piece):
                message = parse_json(record)
                if message["type"] == "DATA":
                    yield message["data"]["type"], base64.b64decode(message["data"]["data"])
        except (MalformedStream, ValueError, KeyError, TypeError) as error:
            raise PelotonError(f"{self.agent} sends output in an unknown form: {error!r}") from error


def exit_code(body: bytes, agent: object) -> int:
    """Return the exit code that the answer to `Nested.wait` tells, 128 and the number for a signal.

    Raises PelotonError where it tells none.
    """
    try:
        status = parse_json(body)["wait_nested_container"].get("exit_status")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PelotonError(f"{agent} tells the end in an unknown form: {error!r}") from error
    if status is None:
        raise PelotonError("how the command ended is not known: its task has ended, or its agent")
    return int(status) >> 8 if int(status) & 0x7F == 0 else 128 + (int(status) & 0x7F)


def refusal(agent: object, status: int, body: bytes, credentials: str) -> PelotonError:
    """Return what an answer other than 200 means; `credentials` says how to give an agent some."""
    text = " ".join(body.decode(errors="replace").split()) or f"status {status}"
    if status == 404:
        return NotFound(f"{agent}: {text}: the task has ended, or the agent serves no sessions")
    if status == 401:
        return Unauthenticated(f"{agent} asks for credentials: {credentials}")
    return PelotonError(f"{agent} runs no command in this container: {text}")


def no_more_input(agent: object, why: str) -> str:
    """Return the text of the failure of a session that goes on while its input no longer arrives."""
    return f"{agent} takes no more input, so the session is over: {why}"


def _window(size: Size) -> Json:
    return {"window_size": {"rows": size[0], "columns": size[1]}}


def _call(kind: str, inner: Json) -> Json:
    return {"type": kind, kind.lower(): inner}


def _process_io(message: Json) -> bytes:
    return _input({"type": "PROCESS_IO", "process_io": message})


def _input(call: Json) -> bytes:
    value = _call("ATTACH_CONTAINER_INPUT", call)
    return frame(json.dumps(value, separators=(",", ":")).encode())
