"""What the door reads of an HTTP request besides its message: type, size, deadline, user."""

from __future__ import annotations

import re
from dataclasses import replace

import grpc
from starlette.requests import Request

from peloton.daemon.spans import PARENT
from peloton.errors import Unauthenticated
from peloton.identity.authorization_header import metadata_of
from peloton.model.amounts import byte_size, duration
from peloton.model.cluster import is_cluster_name
from peloton.web.api.caller import Metadata
from peloton.web.api.failures import CallFailure
from peloton.web.api.methods import Method

JSON = "application/json"
TIMEOUT = "grpc-timeout"
MESOS_CLUSTER = "peloton-mesos-cluster"
LONGEST_TIMEOUT = 600.0
"""Seconds that a call with one answer may ask for."""
_SPAN = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}


def check_origin_and_type(request: Request) -> None:
    """Refuse what a page of another site could send. Raises CallFailure.

    A browser sends application/json to another site only after asking it, and the door never agrees. Nothing
    is read from cookies.
    """
    given = request.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() != JSON:
        text = f"Content-Type: {given!r} is not {JSON}"
        raise CallFailure(grpc.StatusCode.INVALID_ARGUMENT, text, http=415, headers={"Accept": JSON})
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        text = f"Origin: {origin!r} is not this site"
        raise CallFailure(grpc.StatusCode.PERMISSION_DENIED, text)


async def read_body(request: Request, longest: int) -> bytes:
    """Read the body, `longest` bytes at most; nothing of one that says to be longer.

    Raises CallFailure.
    """
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise CallFailure(
            grpc.StatusCode.INVALID_ARGUMENT, "Content-Encoding: send the body as it is", http=415
        )
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or len(declared) > 18 or int(declared) > longest:
        raise _too_long(longest)
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > longest:
            raise _too_long(longest)
    return bytes(body)


def _too_long(longest: int) -> CallFailure:
    text = f"the body is larger than {byte_size(longest)}"
    return CallFailure(grpc.StatusCode.RESOURCE_EXHAUSTED, text, http=413, headers={"Connection": "close"})


def timeout_of(request: Request) -> float | None:
    """Return the seconds that the header Grpc-Timeout gives, None without it. Raises CallFailure."""
    given = request.headers.get(TIMEOUT)
    if given is None:
        return None
    found = re.fullmatch(r"([0-9]{1,8})([HMSmun])", given)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 0 < seconds <= LONGEST_TIMEOUT:
        longest = duration(LONGEST_TIMEOUT)
        text = f"Grpc-Timeout: {given!r} is not a time of up to {longest}, such as 30S, 2M or 500m"
        raise CallFailure(grpc.StatusCode.INVALID_ARGUMENT, text)
    return seconds


def in_cluster(method: Method, request: Request) -> Method:
    """Return a host manager's method as served in the Mesos cluster that a header names.

    Raises CallFailure.
    """
    name = request.headers.get(MESOS_CLUSTER)
    if name is None or method.role != "hostmgr":
        return method
    if not is_cluster_name(name):
        raise CallFailure(
            grpc.StatusCode.INVALID_ARGUMENT, f"Peloton-Mesos-Cluster: {name!r} is no cluster's name"
        )
    return replace(method, role=f"{method.role}/{name}")


def user_of(request: Request) -> Metadata:
    """Return the metadata of the user whom the header Authorization names. Raises CallFailure."""
    try:
        return metadata_of(request.headers.get("authorization"))
    except Unauthenticated as error:
        raise CallFailure(grpc.StatusCode.UNAUTHENTICATED, str(error)) from None


def trace_of(request: Request) -> Metadata:
    """Return the metadata of the span that the caller is in.

    W3C Trace Context has anything ignored that is no such span.
    """
    given = request.headers.get(PARENT, "")
    return ((PARENT, given),) if _SPAN.fullmatch(given) else ()
