"""Failed calls: the gRPC status with its HTTP status, and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from google.rpc import status_pb2
from starlette.responses import JSONResponse

from peloton.rpc.errors import challenge_of

DETAILS = "grpc-status-details-bin"
"""Key of the trailing metadata that has a google.rpc.Status with details."""
HTTP_STATUS: Mapping[grpc.StatusCode, int] = {
    grpc.StatusCode.OK: 200,
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.UNKNOWN: 500,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DATA_LOSS: 500,
}
"""As google/rpc/code.proto says."""


class CallFailure(Exception):
    """A call that failed, or that the door refused."""

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        details: Sequence[Mapping[str, Any]] = (),
        http: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Use `http` for an HTTP status that says more than that of the code."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = list(details)
        self.http = HTTP_STATUS[code] if http is None else http
        self.headers = dict(headers or {})

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"code": self.code.name, "message": self.message, "details": self.details}

    def response(self) -> JSONResponse:
        """Return the HTTP answer."""
        headers = self.headers
        if self.code is grpc.StatusCode.UNAUTHENTICATED:
            headers = {"WWW-Authenticate": 'Basic realm="peloton"', **headers}
        return JSONResponse(self.as_dict(), self.http, headers)


def failure_of(error: grpc.RpcError) -> CallFailure:
    """Translate a failed call."""
    challenge = challenge_of(error)
    headers = {"WWW-Authenticate": challenge} if challenge else {}
    details = _details(error.trailing_metadata() or ())
    return CallFailure(error.code(), str(error.details() or ""), details, headers=headers)


def _details(metadata: Any) -> list[Mapping[str, Any]]:
    for key, value in metadata:
        if key == DETAILS:
            try:
                status = status_pb2.Status.FromString(value)
            except DecodeError:
                return []
            return [_detail(each) for each in status.details]
    return []


def _detail(detail: Any) -> Mapping[str, Any]:
    """Return the JSON form of a detail; one of an unknown type has its bytes in Base64."""
    try:
        return dict(MessageToDict(detail))
    except (TypeError, ValueError, KeyError):
        import base64

        return {"@type": detail.type_url, "value": base64.b64encode(detail.value).decode()}
