"""Shared by all commands: the global flags, the client, calls with readable failures, printing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from peloton.cli.targets import Targets
from peloton.errors import Refused

if TYPE_CHECKING:
    from peloton.client import PelotonClient

CALLER = "peloton-cli"


@dataclass(slots=True)
class Session:
    """Global flags of one run of the command line; `json` may also be set by the command itself."""

    json: bool = False
    debug: bool = False
    timeout: float = 20.0
    targets: Targets = field(default_factory=Targets)
    basic_auth: str | None = None
    _client: PelotonClient | None = field(default=None, repr=False)

    @property
    def client(self) -> PelotonClient:
        """The client for these flags; connections are opened when a service is first called."""
        if self._client is None:
            self._client = self._connect()
        return self._client

    def call(self, service: str, method: str, request: Any, timeout: float | None = None) -> Any:
        """Call a service by its attribute on the client, such as `job_svc`, and return the answer.

        Raises CallFailed for a gRPC status and Refused for a refusal that the answer holds.
        """
        from peloton.cli.failures import check

        response = self.call_unchecked(service, method, request, timeout)
        check(response)
        return response

    def call_unchecked(self, service: str, method: str, request: Any, timeout: float | None = None) -> Any:
        """Call a service as `call` does, but return an answer that holds a refusal too."""
        import grpc

        from peloton.cli.failures import call_failed
        from peloton.client.services import SERVICES

        seconds = timeout or self.timeout
        try:
            return getattr(getattr(self.client, service), method)(request, timeout=seconds)
        except grpc.RpcError as error:
            role = SERVICES[service].role
            raise call_failed(error, method, role, self.client.address(role), seconds) from error

    def stream(self, service: str, method: str, request: Any, endless: bool = False) -> Iterator[Any]:
        """Call a service that answers with a stream, and yield its messages. Raises CallFailed.

        A stream that is `endless` has no time limit.
        """
        import grpc

        from peloton.cli.failures import call_failed
        from peloton.client.services import SERVICES

        try:
            timeout = None if endless else self.timeout
            yield from getattr(getattr(self.client, service), method)(request, timeout=timeout)
        except grpc.RpcError as error:
            role = SERVICES[service].role
            raise call_failed(error, method, role, self.client.address(role), self.timeout) from error

    def show(self, value: Any, human: Callable[[], str]) -> None:
        """Print `value`, a message or plain data, as JSON with --json, else what `human` returns."""
        from peloton.cli.output import json_text

        text = json_text(value) if self.json else human()
        if text:
            click.echo(text)

    def close(self) -> None:
        """Close the client's connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connect(self) -> PelotonClient:
        from peloton.cli.output import say
        from peloton.client import PelotonClient
        from peloton.client.auth import read_basic_auth

        return PelotonClient(
            CALLER,
            discovery=self.targets.discovery(say),
            timeout=self.timeout,
            auth=read_basic_auth(self.basic_auth) if self.basic_auth else None,
        )


def pool_id(session: Session, path: str) -> str:
    """Return the id of the pool at a path such as `/a/b`. Raises Refused where there is none."""
    from peloton.api.v0.respool import respool_pb2

    request = respool_pb2.LookupRequest(path=respool_pb2.ResourcePoolPath(value=path))
    response = session.call_unchecked("respool_svc", "LookupResourcePoolID", request)
    if response.HasField("error") or not response.id.value:
        text = response.error.notFound.message or response.error.invalidPath.message
        if path and path in text:
            raise Refused(text)
        hint = "" if path.startswith("/") else ": a pool's path begins with `/`, such as /DefaultResPool"
        raise Refused(f"resource pool {path!r}: {text or 'there is no pool of this path'}{hint}")
    return str(response.id.value)


pass_session = click.make_pass_decorator(Session)
"""Decorator: pass the session to a command as its first argument."""
