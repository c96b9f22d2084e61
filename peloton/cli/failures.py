"""Says in one line what went wrong: refusals in answers, failed calls, unreachable daemons."""

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
_PASSING = ("UNAVAILABLE", "DEADLINE_EXCEEDED")
_REFUSALS = ("error", "notFound", "outOfRange")


class CallFailed(PelotonError):
    """A call ended with a gRPC status; `passing` where the same call may succeed later."""

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        self.passing = code in _PASSING
        super().__init__(text)


def call_failed(error: grpc.RpcError, method: str, role: str, address: str, timeout: float) -> CallFailed:
    """The failure of `method` at `role`'s `address` as a person should read it."""
    code, details = error.code().name, str(error.details() or "").strip()
    if code == "UNAVAILABLE" and _unreached(details):
        text = (
            f"cannot reach {role} at {address} ({_unreached(details)}): start a cluster with "
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


def _unreached(details: str) -> str:
    lower = details.lower()
    if "connection refused" in lower:
        return "connection refused"
    if "dns resolution failed" in lower or "name resolution" in lower:
        return "its host name is not known"
    if lower.startswith(("failed to connect", "socket closed", "connection reset", "recvmsg")):
        return details.rpartition(": ")[2] or "no connection"
    return ""


def check(response: Any) -> None:
    """Raise Refused where an answer says in its own fields that the call was refused (behaviour 1.4)."""
    for name in _REFUSALS:
        field = response.DESCRIPTOR.fields_by_name.get(name)
        if field is not None and field.message_type is not None and response.HasField(name):
            inner = getattr(response, name)
            raise Refused(_told(inner) if name == "error" else _reason(inner))


def _told(error: Any) -> str:
    for _, value in error.ListFields():
        if isinstance(value, Message):
            return _reason(value)
    return str(getattr(error, "message", "")) or "refused, without a reason"


def _reason(refusal: Any) -> str:
    said = str(getattr(refusal, "message", "")).strip()
    value = next((part.value for _, part in refusal.ListFields() if hasattr(part, "value")), "")
    kind = str(refusal.DESCRIPTOR.name)
    if said:
        # A pool's id is nobody's who asked by path, and in vain: of one that is to be made it is gone again.
        known = not value or value in said or kind == "InvalidResourcePoolConfig"
        return said if known else f"{said}: {value}"
    if kind == "InstanceIdOutOfRange":
        count = refusal.instanceCount
        return f"no such instance: the job has {count}, 0 to {count - 1}" if count else "no such instance"
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in kind).strip()
    return f"{words}: {value}" if value else words
