"""One-line texts of what went wrong: failed calls, unreachable daemons; and the check for refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peloton.errors import PelotonError
from peloton.model.amounts import duration
from peloton.present.failures import connection_failure
from peloton.present.refusals import check as check

if TYPE_CHECKING:
    import grpc

FLAGS = {
    "jobmgr": "-m/--jobmgr or JOBMGR_URL",
    "resmgr": "-v/--resmgr or RESMGR_URL",
    "hostmgr": "-u/--hostmgr or HOSTMGR_URL",
}
_TRANSIENT = ("UNAVAILABLE", "DEADLINE_EXCEEDED")


class CallFailed(PelotonError):
    """A call ended with a gRPC status; `transient` where the same call may succeed later."""

    def __init__(self, code: str, text: str, reason: str = "") -> None:
        self.code = code
        self.reason = reason
        self.transient = code in _TRANSIENT
        super().__init__(text)


def call_failed(error: grpc.RpcError, method: str, role: str, address: str, timeout: float) -> CallFailed:
    """Return the failure of `method` at `role`'s `address`, with a text for users."""
    from peloton.client.failures import reason

    code, details = error.code().name, str(error.details() or "").strip()
    if code == "UNAVAILABLE" and connection_failure(details):
        text = (
            f"cannot reach {role} at {address} ({connection_failure(details)}): start a cluster with "
            f"`peloton minicluster up`, or give its address with {FLAGS[role]}"
        )
    elif code == "DEADLINE_EXCEEDED":
        text = f"{role} at {address} did not answer {method} within {duration(timeout)} (--timeout)"
    elif code == "UNIMPLEMENTED":
        text = f"{role} at {address} does not serve {method}"
    elif code == "UNAVAILABLE":
        text = f"{role} at {address} cannot answer now: {details}"
    else:
        text = details or f"{method} at {role} {address} failed"
        text = f"{text} ({code})"
    return CallFailed(code, " ".join(text.split()), reason(error))
