"""Shared by all commands: the global flags, the client, calls with readable failures, printing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from peloton.cli.targets import Targets
from peloton.errors import PelotonError, Refused
from peloton.model.cluster import cluster_of

if TYPE_CHECKING:
    from peloton.cli.listing import Listing
    from peloton.client import Discovery, PelotonClient
    from peloton.client.auth import Auth
    from peloton.client.sandbox import Agent
    from peloton.client.tls import Tls
    from peloton.config.agents import AgentAccess

CALLER = "peloton-cli"
OUTPUTS = ("table", "wide", "json", "yaml", "name")
"""Forms of the output."""


@dataclass(slots=True)
class Session:
    """Global flags of one run of the command line; `output` may also be set by the command itself."""

    output: str = ""
    """One of OUTPUTS; empty: a table for a list, YAML for one object, else a sentence."""
    debug: bool = False
    timeout: float = 20.0
    targets: Targets = field(default_factory=Targets)
    basic_auth: str | None = None
    mesos_cluster: str = ""
    """The Mesos cluster whose host manager is called; empty: by the hosts that a request names."""
    tls_files: tuple[str | None, str | None, str | None] = (None, None, None)
    """Of the authorities, of the own certificate and of its key."""
    agent_files: tuple[str | None, str | None] = (None, None)
    """Of the authorities of Mesos agents, and of the credentials for them."""
    _client: PelotonClient | None = field(default=None, repr=False)
    _sessions: dict[str, Session] = field(default_factory=dict, repr=False)
    """Of Mesos clusters."""
    write: Callable[[str], object] | None = field(default=None, repr=False)
    """Takes what is printed; None: standard output."""
    quiet: bool = False
    """Whether nothing may be said on standard error."""

    @property
    def json(self) -> bool:
        """Whether JSON is wanted."""
        return self.output == "json"

    @json.setter
    def json(self, wanted: bool) -> None:
        self.output = "json" if wanted else self.output

    @property
    def plain(self) -> bool:
        """Whether people read the output: neither JSON nor YAML nor names for a program."""
        return self.output in ("", "table", "wide")

    @property
    def client(self) -> PelotonClient:
        """The client for these flags; connections are opened when a service is first called."""
        if self._client is None:
            self._client = self._connect()
        return self._client

    def agent(self, sandbox: Any) -> Agent:
        """Return the Mesos agent that an answer of BrowseSandbox names."""
        from peloton.client.sandbox import Agent

        return Agent(sandbox.hostname, int(sandbox.port or 5051), self.timeout, self.client.agents)

    def call_clusters(self, service: str, method: str, request: Any) -> list[Any]:
        """Call the host managers of all Mesos clusters, or of the one that is named; return the answers.

        A cluster that does not answer is reported. Raises what its call raised where none answers.
        """
        from peloton.cli.output import say

        found, failed = [], []
        for cluster in [self.mesos_cluster] if self.mesos_cluster else self.client.clusters():
            try:
                found.append(self._in(cluster).call(service, method, request))
            except PelotonError as error:
                failed.append((cluster, error))
        if failed and not found:
            raise failed[0][1]
        for cluster, failure in failed:
            say(f"peloton: without the Mesos cluster {cluster or 'that has no name'}: {failure}")
        return found

    def _in(self, cluster: str) -> Session:
        """Return the session of a Mesos cluster."""
        if cluster == self.mesos_cluster:
            return self
        if cluster not in self._sessions:
            self._sessions[cluster] = replace(
                self, mesos_cluster=cluster, _client=self.client.in_cluster(cluster), _sessions={}
            )
        return self._sessions[cluster]

    def _for(self, service: str, request: Any) -> Session:
        """Return the session to call a service by: that of the cluster of the hosts that a request names."""
        from peloton.client.services import SERVICES

        if SERVICES[service].role != "hostmgr" or self.mesos_cluster:
            return self
        clusters = {cluster_of(name) for name in _hostnames(request)}
        if len(clusters) > 1:
            names = ", ".join(each or "the unnamed one" for each in sorted(clusters))
            raise Refused(f"the hosts are of several Mesos clusters, {names}: give those of one at a time")
        return self._in(clusters.pop()) if clusters else self

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
        from peloton.cli.waiting import waiting
        from peloton.client.services import SERVICES

        seconds = timeout or self.timeout
        if (session := self._for(service, request)) is not self:
            return session.call_unchecked(service, method, request, timeout)
        try:
            with waiting(f"{SERVICES[service].role}: {method}", quiet=self.quiet or self.write is not None):
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
        from peloton.cli.waiting import waiting
        from peloton.client.services import SERVICES

        try:
            timeout = None if endless else self.timeout
            messages = getattr(getattr(self.client, service), method)(request, timeout=timeout)
            if endless:
                yield from messages
                return
            with waiting(f"{SERVICES[service].role}: {method}", quiet=self.quiet or self.write is not None):
                yield from messages
        except grpc.RpcError as error:
            role = SERVICES[service].role
            raise call_failed(error, method, role, self.client.address(role), self.timeout) from error

    def show(self, value: Any, human: Callable[[], str | Listing], name: str = "") -> None:
        """Print `value`, a message or plain data, as it is wanted; for people, what `human` returns.

        `name` is printed where names are wanted, and the names of a list; what has no name is printed for
        people.
        """
        text = self._text(value, human, name)
        if text and self.write is not None:
            self.write(text)
        elif text:
            click.echo(text)

    def show_object(self, value: Any, name: str = "") -> None:
        """Print one object: YAML, or with `-o table` a line for each of its fields."""
        from peloton.cli.output import field_table, yaml_text

        self.show(value, lambda: field_table(value) if self.output == "table" else yaml_text(value), name)

    def _text(self, value: Any, human: Callable[[], str | Listing], name: str) -> str:
        from peloton.cli.colours import has_colours
        from peloton.cli.output import json_text, yaml_text

        if self.output == "json":
            return json_text(value)
        if self.output == "yaml":
            return yaml_text(value)
        if self.output == "name" and name:
            return name
        shown = human()
        if isinstance(shown, str):
            return shown
        if self.output == "name":
            return shown.names()
        return shown.render(wide=self.output == "wide", colours=has_colours(sys.stdout))

    def close(self) -> None:
        """Close the client's connections."""
        for session in self._sessions.values():
            session.close()
        if self._client is not None:
            self._client.close()
            self._client = None

    def _identity(self, discovery: Discovery) -> tuple[Auth | None, Tls | None, AgentAccess]:
        """Return whose calls these are, and what encrypts them: as given, or as a minicluster needs it."""
        from peloton.client.agents import agents_by
        from peloton.client.auth import read_auth
        from peloton.client.tls import Tls

        for file in (self.basic_auth, self.agent_files[1], self.tls_files[2]):
            _warn_where_open(file)
        auth = read_auth(self.basic_auth) if self.basic_auth else None
        tls = Tls(*(file or "" for file in self.tls_files)) if any(self.tls_files) else None
        agents = agents_by(*self.agent_files)
        folder = getattr(discovery, "minicluster", None)
        if folder is None:
            return auth, tls, agents
        from minicluster.credentials import client_identity

        own = client_identity(folder)
        agents = agents if any(self.agent_files) else own.get("agents", agents)
        return auth or own.get("auth"), tls or own.get("tls"), agents

    def _connect(self) -> PelotonClient:
        from peloton.cli.output import say
        from peloton.client import PelotonClient
        from peloton.client.discovery import InCluster

        discovery = self.targets.discovery((lambda text: None) if self.quiet else say)
        auth, tls, agents = self._identity(discovery)
        return PelotonClient(
            CALLER,
            discovery=InCluster(discovery, self.mesos_cluster) if self.mesos_cluster else discovery,
            timeout=self.timeout,
            auth=auth,
            tls=tls,
            agents=agents,
        )


def _hostnames(request: Any) -> list[str]:
    """Return the hosts that a request names."""
    return [*getattr(request, "hostnames", ()), *filter(None, [getattr(request, "hostname", "")])]


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


def _warn_where_open(file: str | None) -> None:
    """Warn of a file with a password or a key that others on this machine can use."""
    if not file:
        return
    import os

    from peloton.cli.output import say

    with suppress(OSError):  # whoever reads it says so
        if os.stat(file).st_mode & 0o077:  # noqa: PTH116 - the import of pathlib takes longer
            say(f"warning: others on this machine can use {file}: `chmod 600 {file}`")
