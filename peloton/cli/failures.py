"""One-line texts of what went wrong: refusals in answers, failed calls, unreachable daemons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message

from peloton.errors import PelotonError, Refused

if TYPE_CHECKING:
    import grpc

FLAGS = {
    "jobmgr": "-m/--jobmgr or JOBMGR_URL",
    "resmgr": "-v/--resmgr or RESMGR_URL",
    "hostmgr": "-u/--hostmgr or HOSTMGR_URL",
}
_TRANSIENT = ("UNAVAILABLE", "DEADLINE_EXCEEDED")
_OF_CONFIGS = ("InvalidJobConfig", "InvalidResourcePoolConfig")
_REFUSALS = ("error", "notFound", "outOfRange")


class CallFailed(PelotonError):
    """A call ended with a gRPC status; `transient` where the same call may succeed later."""

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        self.transient = code in _TRANSIENT
        super().__init__(text)


def call_failed(error: grpc.RpcError, method: str, role: str, address: str, timeout: float) -> CallFailed:
    """Return the failure of `method` at `role`'s `address`, with a text for users."""
    code, details = error.code().name, str(error.details() or "").strip()
    if code == "UNAVAILABLE" and _connection_failure(details):
        text = (
            f"cannot reach {role} at {address} ({_connection_failure(details)}): start a cluster with "
            f"`peloton minicluster up`, or give its address with {FLAGS[role]}"
        )
    elif code == "DEADLINE_EXCEEDED":
        text = f"{role} at {address} did not answer {method} within {timeout:g} s (--timeout)"
    elif code == "UNIMPLEMENTED":
        text = f"{role} at {address} does not serve {method}"
    elif code == "UNAVAILABLE":
        text = f"{role} at {address} cannot answer now: {details}"
    else:
        text = details or f"{method} at {role} {address} failed"
        text = f"{text} ({code})"
    return CallFailed(code, " ".join(text.split()))


def _connection_failure(details: str) -> str:
    lower = details.lower()
    if "connection refused" in lower:
        return "connection refused"
    if "dns resolution failed" in lower or "name resolution" in lower:
        return "its host name is not known"
    if lower.startswith(("failed to connect", "socket closed", "connection reset", "recvmsg")):
        return details.rpartition(": ")[2] or "no connection"
    return ""


def check(response: Any) -> None:
    """Raise Refused where a field of an answer says that the call was refused (docs/behaviour/system.md)."""
    for name in _REFUSALS:
        field = response.DESCRIPTOR.fields_by_name.get(name)
        if field is not None and field.message_type is not None and response.HasField(name):
            inner = getattr(response, name)
            raise Refused(_error_text(inner) if name == "error" else _refusal_text(inner))


def _error_text(error: Any) -> str:
    for _, value in error.ListFields():
        if isinstance(value, Message):
            return _refusal_text(value)
    return str(getattr(error, "message", "")) or "refused, without a reason"


def _refusal_text(refusal: Any) -> str:
    text = str(getattr(refusal, "message", "")).strip()
    value = next((part.value for _, part in refusal.ListFields() if hasattr(part, "value")), "")
    kind = str(refusal.DESCRIPTOR.name)
    if text:
        # The id of what was not created means nothing to the caller.
        known = not value or value in text or kind in _OF_CONFIGS
        return text if known else f"{text}: {value}"
    if kind == "InstanceIdOutOfRange":
        count = refusal.instanceCount
        return f"no such instance: the job has {count}, 0 to {count - 1}" if count else "no such instance"
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in kind).strip()
    return f"{words}: {value}" if value else words
