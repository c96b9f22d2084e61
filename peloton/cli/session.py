"""What all commands share: the global flags, the client, calls with readable failures, printing."""

from __future__ import annotations

from collections.abc import Callable
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
    """Global flags of one call of the command line; `json` may also be set by the command itself."""

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

        response = self.ask(service, method, request, timeout)
        check(response)
        return response

    def ask(self, service: str, method: str, request: Any, timeout: float | None = None) -> Any:
        """As `call`, but refusals in the answer are left to the caller."""
        import grpc

        from peloton.cli.failures import call_failed
        from peloton.client.services import SERVICES

        seconds = timeout or self.timeout
        try:
            return getattr(getattr(self.client, service), method)(request, timeout=seconds)
        except grpc.RpcError as error:
            role = SERVICES[service].role
            raise call_failed(error, method, role, self.client.address(role), seconds) from error

    def show(self, value: Any, human: Callable[[], str]) -> None:
        """Print `value`, a message or plain data, as JSON where asked for; else what `human` makes of it."""
        from peloton.cli.output import json_text

        text = json_text(value) if self.json else human()
        if text:
            click.echo(text)

    def close(self) -> None:
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
    """Id of the pool at a path such as `/a/b`. Raises Refused where there is none."""
    from peloton.api.v0.respool import respool_pb2

    request = respool_pb2.LookupRequest(path=respool_pb2.ResourcePoolPath(value=path))
    response = session.ask("respool_svc", "LookupResourcePoolID", request)
    if response.HasField("error") or not response.id.value:
        said = response.error.notFound.message or response.error.invalidPath.message
        if path and path in said:
            raise Refused(said)
        hint = "" if path.startswith("/") else ": a pool's path begins with `/`, such as /DefaultResPool"
        raise Refused(f"resource pool {path!r}: {said or 'there is no pool of this path'}{hint}")
    return str(response.id.value)


passing = click.make_pass_decorator(Session)
"""Hands a command the session as its first argument."""
