"""Which requests to ``/api/v1`` of an agent are well formed: media types, and the fields of each call.

The checks and their order are those of a real agent: method, Content-Type, Message-Content-Type, Accept,
Message-Accept, parsing, validation, streaming (recordings ``13-agent-sandbox`` and ``06-invalid``).
"""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import DecodeError, Message

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.agent import agent_pb2 as agent
from minicluster.mesos.common.http_messages import JSON, PROTOBUF, Request, Response, refuse
from minicluster.mesos.common.media_types import accepted, method_error
from peloton.mesos import json as mesos_json
from peloton.recordio import RECORDIO

Call = agent.Call
LONGEST_ID_CHARACTERS = 242
"""Characters of a container's id, as in Mesos."""
_MESSAGE_TYPES = f"{JSON} or {PROTOBUF}"
_TYPES = f"{_MESSAGE_TYPES} or {RECORDIO}"
_WITH_CONTAINER = frozenset(
    {
        *(Call.LAUNCH_NESTED_CONTAINER, Call.WAIT_NESTED_CONTAINER, Call.KILL_NESTED_CONTAINER),
        *(Call.REMOVE_NESTED_CONTAINER, Call.LAUNCH_NESTED_CONTAINER_SESSION, Call.ATTACH_CONTAINER_OUTPUT),
        *(Call.LAUNCH_CONTAINER, Call.WAIT_CONTAINER, Call.KILL_CONTAINER, Call.REMOVE_CONTAINER),
    }
)
_STREAMED = frozenset({Call.ATTACH_CONTAINER_OUTPUT, Call.LAUNCH_NESTED_CONTAINER_SESSION})
_OPTIONAL_BODIES = frozenset({"get_containers", "prune_images"})


class CallError(ValueError):
    """A body is no call; ``str()`` is the sentence of its 400."""


@dataclass(frozen=True, slots=True)
class MediaTypes:
    """The media types of one exchange; those of messages are None where it has no stream."""

    content: str
    accept: str
    message_content: str | None = None
    message_accept: str | None = None


def negotiate(request: Request) -> MediaTypes | Response:
    """Return what a request is written in and what its answer is to be, or the refusal."""
    wrong_method = method_error(request)
    if wrong_method is not None:
        return wrong_method
    content = _content(request)
    if isinstance(content, Response):
        return content
    accept = accepted(request, JSON, PROTOBUF, RECORDIO)
    if accept is None:
        return refuse(406, f"Expecting 'Accept' to allow {_TYPES}")
    message_accept = None
    if accept == RECORDIO:
        message_accept = accepted(request, JSON, PROTOBUF, header="message-accept")
        if message_accept is None:
            return refuse(406, f"Expecting 'Message-Accept' to allow {_MESSAGE_TYPES}")
    elif "message-accept" in request.headers:
        return refuse(406, "Expecting 'Message-Accept' to be not set for non-streaming responses")
    return MediaTypes(content[0], accept, content[1], message_accept)


def _content(request: Request) -> tuple[str, str | None] | Response:
    """Return the type of the body, and of the messages in it where it is a stream; or the refusal."""
    content = request.headers.get("content-type")
    message = request.headers.get("message-content-type")
    if content is None:
        return refuse(400, "Expecting 'Content-Type' to be present")
    if content not in (JSON, PROTOBUF, RECORDIO):  # a web page of another site may send other types unasked
        return refuse(415, f"Expecting 'Content-Type' of {_TYPES}")
    if content != RECORDIO and message is not None:
        return refuse(415, "Expecting 'Message-Content-Type' to be not set for non-streaming requests")
    if content == RECORDIO and message is None:
        return refuse(400, "Expecting 'Message-Content-Type' to be set for streaming requests")
    if content == RECORDIO and message not in (JSON, PROTOBUF):
        return refuse(415, f"Expecting 'Message-Content-Type' of {_MESSAGE_TYPES}")
    return content, message


def parse(body: bytes, kind: str) -> agent.Call:
    """Read a call of a media type. Raise CallError."""
    try:
        call = mesos_json.decode(body, Call) if kind == JSON else Call.FromString(body)
    except mesos_json.JsonError as error:
        raise CallError(str(error)) from error
    except DecodeError as error:
        raise CallError("Failed to parse body into Call protobuf") from error
    wrong = _invalid(call)
    if wrong is not None:
        raise CallError(f"Failed to validate agent::Call: {wrong}")
    return call


def streaming_error(call: agent.Call, media: MediaTypes) -> Response | None:
    """Return the refusal of a stream where the call has none, and of a call that needs one."""
    kind = Call.Type.Name(call.type)
    if call.type == Call.ATTACH_CONTAINER_INPUT and media.content != RECORDIO:
        return refuse(415, f"Expecting 'Content-Type' to be {RECORDIO} for {kind} call")
    if call.type != Call.ATTACH_CONTAINER_INPUT and media.content == RECORDIO:
        return refuse(415, f"Streaming 'Content-Type' {RECORDIO} is not supported for {kind} call")
    if call.type not in _STREAMED and media.accept == RECORDIO:
        return refuse(406, f"Streaming response is not supported for {kind} call")
    return None


def encode(message: Message, kind: str) -> bytes:
    """Return a message in a media type."""
    return mesos_json.encode(message) if kind == JSON else message.SerializeToString()


def answer(message: agent.Response, media: MediaTypes) -> Response:
    """Return the reply with a message."""
    return Response(200, encode(message, media.accept), media.accept)


def _invalid(call: agent.Call) -> str | None:
    if not call.HasField("type"):
        return "Expecting 'type' to be present"
    body = Call.Type.Name(call.type).lower()
    needed = body in Call.DESCRIPTOR.fields_by_name and body not in _OPTIONAL_BODIES
    if needed and not call.HasField(body):  # type: ignore[arg-type]
        return f"Expecting '{body}' to be present"
    if call.type == Call.ATTACH_CONTAINER_INPUT:
        return _invalid_input(call.attach_container_input)
    return _invalid_container(call, body) if call.type in _WITH_CONTAINER else None


def _invalid_container(call: agent.Call, body: str) -> str | None:
    container: mesos.ContainerID = getattr(call, body).container_id
    error = _invalid_id(container)
    if error is not None:
        return f"'{body}.container_id' is invalid: {error}"
    if "nested" in body and not container.HasField("parent"):
        return f"Expecting '{body}.container_id.parent' to be present"
    return None


def _invalid_input(call: agent.Call.AttachContainerInput) -> str | None:
    if not call.HasField("type"):
        return "Expecting 'attach_container_input.type' to be present"
    if call.type == Call.AttachContainerInput.UNKNOWN:
        return "'attach_container_input.type' is unknown"
    if call.type == Call.AttachContainerInput.CONTAINER_ID:
        error = _invalid_id(call.container_id)
        return None if error is None else f"'attach_container_input.container_id' is invalid: {error}"
    return None


def _invalid_id(container: mesos.ContainerID) -> str | None:
    name = container.value
    if not name:
        return "ID must not be empty"
    if name in (".", ".."):
        return f"'{name}' is disallowed"
    if any(char <= " " or char in "/\\\x7f" for char in name.replace(" ", "")):
        return f"'{name}' contains invalid characters"
    if len(name) > LONGEST_ID_CHARACTERS:
        return f"'ContainerID.value' '{name}' exceeds the maximum length ({LONGEST_ID_CHARACTERS})"
    if "." in name or " " in name:
        return f"'ContainerID.value' '{name}' contains invalid characters"
    if container.HasField("parent"):
        error = _invalid_id(container.parent)
        return None if error is None else f"'ContainerID.parent' is invalid: {error}"
    return None
