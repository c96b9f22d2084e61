"""Shared by all commands: the global flags, the client, calls with readable failures, printing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from peloton.cli.targets import Targets
from peloton.client.rpcs import RPCS, name_of
from peloton.errors import PelotonError, Refused
from peloton.model.cluster import cluster_of

if TYPE_CHECKING:
    import grpc

    from peloton.cli.listing import Listing
    from peloton.client import PelotonClient
    from peloton.client.auth import Auth
    from peloton.client.extensions import LocalCluster
    from peloton.client.sandbox import Agent
    from peloton.client.tls import Tls
    from peloton.config.agents import AgentAccess

Request = TypeVar("Request")
Answer = TypeVar("Answer")
CALLER = "peloton-cli"
OUTPUTS = ("table", "wide", "json", "yaml", "name", "csv")
"""Forms of the output."""


class OnAgent(Protocol):
    """An answer that names the Mesos agent of a sandbox."""

    hostname: str
    port: str


@dataclass(frozen=True, slots=True)
class Given:
    """Another's identity; `auth` is None for somebody who gives none. Our own never stands in for it."""

    auth: Auth | None


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
    query: str | None = None
    """An expression of JMESPath that chooses what is printed of the JSON; None: all, as `output` says."""
    given: Given | None = field(default=None, repr=False)
    """Whose calls these are where others call through this process; None: the user's of this process."""

    @property
    def json(self) -> bool:
        """Whether JSON is wanted, or a part of it."""
        return self.output == "json" or self.query is not None

    @json.setter
    def json(self, wanted: bool) -> None:
        self.output = "json" if wanted else self.output

    @property
    def plain(self) -> bool:
        """Whether people read the output: neither JSON nor YAML nor names for a program."""
        return self.query is None and self.output in ("", "table", "wide")

    @property
    def client(self) -> PelotonClient:
        """The client for these flags; connections are opened when a service is first called."""
        if self._client is None:
            self._client = self._connect()
        return self._client

    def agent(self, sandbox: OnAgent) -> Agent:
        """Return the Mesos agent that an answer of BrowseSandbox names."""
        from peloton.client.sandbox import Agent

        return Agent(sandbox.hostname, int(sandbox.port or 5051), self.timeout, self.client.agents)

    def call_clusters(
        self, rpc: grpc.UnaryUnaryMultiCallable[Request, Answer], request: Request
    ) -> list[Answer]:
        """Call the host managers of all Mesos clusters, or of the one that is named; return the answers.

        A cluster that does not answer is reported. Raises what its call raised where none answers.
        """
        from peloton.cli.output import say

        found: list[Answer] = []
        failed = []
        for cluster in [self.mesos_cluster] if self.mesos_cluster else self.client.clusters():
            try:
                found.append(self._in(cluster).call(rpc, request))
            except PelotonError as error:
                failed.append((cluster, error))
        if failed and not found:
            raise failed[0][1]
        for cluster, failure in failed:
            say(f"peloton: without the Mesos cluster {cluster or 'that has no name'}: {failure}")
        return found

    def _in(self, cluster: str) -> Session:
        """Return the session of a Mesos cluster."""
        if cluster == (self.mesos_cluster or self.client.own_cluster):
            return self
        if cluster not in self._sessions:
            self._sessions[cluster] = replace(
                self, mesos_cluster=cluster, _client=self.client.in_cluster(cluster), _sessions={}
            )
        return self._sessions[cluster]

    def _for(self, role: str, request: object) -> Session:
        """Return the session to call a role by: that of the cluster of the hosts that a request names."""
        if role != "hostmgr" or self.mesos_cluster:
            return self
        clusters = {cluster_of(name) for name in _hostnames(request)}
        if len(clusters) > 1:
            names = ", ".join(each or "the unnamed one" for each in sorted(clusters))
            raise Refused(f"the hosts are of several Mesos clusters, {names}: give those of one at a time")
        return self._in(clusters.pop()) if clusters else self

    def call(
        self,
        rpc: grpc.UnaryUnaryMultiCallable[Request, Answer],
        request: Request,
        timeout: float | None = None,
    ) -> Answer:
        """Call an RPC of RPCS, such as `RPCS.job_svc.Get`, and return the answer.

        `timeout` is in seconds; without it, that of the flags holds. Raises CallFailed for a gRPC
        status and Refused for a refusal that the answer holds.
        """
        from peloton.cli.failures import check

        response = self.call_unchecked(rpc, request, timeout)
        check(response)
        return response

    def call_unchecked(
        self,
        rpc: grpc.UnaryUnaryMultiCallable[Request, Answer],
        request: Request,
        timeout: float | None = None,
    ) -> Answer:
        """Call an RPC as `call` does, but return an answer that holds a refusal too."""
        import grpc

        from peloton.cli.failures import call_failed
        from peloton.cli.waiting import waiting
        from peloton.client.finding import DiscoveryError
        from peloton.client.services import SERVICES

        seconds = timeout or self.timeout
        name = name_of(rpc)
        role = SERVICES[name.service].role
        if (session := self._for(role, request)) is not self:
            return session.call_unchecked(rpc, request, timeout)
        try:
            with waiting(f"{role}: {name.method}", quiet=self.quiet or self.write is not None):
                answer: Answer = name.on(self.client)(request, timeout=seconds)
                return answer
        except grpc.RpcError as error:
            if isinstance(error, DiscoveryError):
                raise
            raise call_failed(error, name.method, role, self.client.address(role), seconds) from error

    def stream(
        self,
        rpc: grpc.UnaryStreamMultiCallable[Request, Answer],
        request: Request,
        endless: bool = False,
    ) -> Iterator[Answer]:
        """Call an RPC that answers with a stream, and yield its messages. Raises CallFailed.

        A stream that is `endless` has no time limit.
        """
        import grpc

        from peloton.cli.failures import call_failed
        from peloton.cli.waiting import waiting
        from peloton.client.finding import DiscoveryError
        from peloton.client.services import SERVICES

        name = name_of(rpc)
        role = SERVICES[name.service].role
        try:
            messages = name.on(self.client)(request, timeout=None if endless else self.timeout)
            if endless:
                yield from messages
                return
            with waiting(f"{role}: {name.method}", quiet=self.quiet or self.write is not None):
                yield from messages
        except grpc.RpcError as error:
            if isinstance(error, DiscoveryError):
                raise
            raise call_failed(error, name.method, role, self.client.address(role), self.timeout) from error

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

    def show_object(self, value: Any, name: str = "", beside: Mapping[str, Any] | None = None) -> None:
        """Print one object: YAML, or with `-o table` a line for each of its fields.

        `beside`: what is shown with a message, that is not of it.
        """
        from peloton.cli.output import field_table, yaml_text
        from peloton.present.plain import as_json, plain

        if beside:
            programs = self.output == "json" or self.query is not None
            value = {**(as_json(value) if programs else plain(value)), **beside}
        self.show(value, lambda: field_table(value) if self.output == "table" else yaml_text(value), name)

    def _text(self, value: Any, human: Callable[[], str | Listing], name: str) -> str:
        from peloton.cli.colours import has_colours
        from peloton.cli.output import json_text, yaml_text
        from peloton.cli.text import terminal_columns

        if self.query is not None:
            return self._chosen(self.query, value)
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
        if self.output == "csv":
            return shown.csv()
        width = terminal_columns() if not self.output else 0
        return shown.render(wide=self.output == "wide", colours=has_colours(sys.stdout), terminal=width)

    def _chosen(self, query: str, value: Any) -> str:
        from peloton.cli.json_query import chosen, lines
        from peloton.cli.output import json_text, yaml_text

        found = chosen(query, value)
        forms = {"json": json_text, "yaml": yaml_text}
        return forms.get(self.output, lines)(found)

    def close(self) -> None:
        """Close the client's connections."""
        for session in self._sessions.values():
            session.close()
        if self._client is not None:
            self._client.close()
            self._client = None

    def _identity(self, local: LocalCluster | None) -> tuple[Auth | None, Tls | None, AgentAccess]:
        """Return whose calls these are, and what encrypts them: as given, or as a minicluster needs it."""
        from peloton.client.agents import agents_by
        from peloton.client.auth import read_auth
        from peloton.client.tls import Tls

        for file in (self.basic_auth, self.agent_files[1], self.tls_files[2]):
            _warn_where_open(file)
        auth = read_auth(self.basic_auth) if self.basic_auth and self.given is None else None
        tls = Tls(*(file or "" for file in self.tls_files)) if any(self.tls_files) else None
        agents = agents_by(*self.agent_files)
        own = local.identity() if local is not None else {}
        agents = agents if any(self.agent_files) else own.get("agents", agents)
        if self.given is not None:
            return self.given.auth, _for_others(tls or own.get("tls"), self.given), agents
        if auth is None and local is None and not self.targets.flags.names(0):
            auth = _of_task(tls)
        return auth or own.get("auth"), tls or own.get("tls"), agents

    def of_user(self, auth: Auth | None) -> Session:
        """Return a session for calls in the name of another, who gave `auth`. Close it by itself."""
        return replace(self, given=Given(auth), quiet=True, _client=None, _sessions={})

    def _connect(self) -> PelotonClient:
        from peloton.cli.mesos_clusters import AskingDiscovery, asked
        from peloton.cli.output import say
        from peloton.client import PelotonClient
        from peloton.client.discovery import InCluster, UrlDiscovery

        found = self.targets.found((lambda text: None) if self.quiet else say)
        discovery = found.discovery
        auth, tls, agents = self._identity(found.local)
        if isinstance(discovery, UrlDiscovery):
            one = PelotonClient(CALLER, discovery=discovery, timeout=self.timeout, auth=auth, tls=tls)
            discovery = AskingDiscovery(discovery, lambda: asked(one))
        return PelotonClient(
            CALLER,
            discovery=InCluster(discovery, self.mesos_cluster) if self.mesos_cluster else discovery,
            timeout=self.timeout,
            auth=auth,
            tls=tls,
            agents=agents,
        )


def _hostnames(request: object) -> list[str]:
    """Return the hosts that a request names."""
    return [*getattr(request, "hostnames", ()), *filter(None, [getattr(request, "hostname", "")])]


def pool_id(session: Session, path: str) -> str:
    """Return the id of the pool at a path such as `/a/b`. Raises Refused where there is none."""
    from peloton.api.v0.respool import respool_pb2

    request = respool_pb2.LookupRequest(path=respool_pb2.ResourcePoolPath(value=path))
    response = session.call_unchecked(RPCS.respool_svc.LookupResourcePoolID, request)
    if response.HasField("error") or not response.id.value:
        text = response.error.notFound.message or response.error.invalidPath.message
        if path and path in text:
            raise Refused(text)
        hint = "" if path.startswith("/") else ": a pool's path begins with `/`, such as /DefaultResPool"
        raise Refused(f"resource pool {path!r}: {text or 'there is no pool of this path'}{hint}")
    return str(response.id.value)


pass_session = click.make_pass_decorator(Session)
"""Decorator: pass the session to a command as its first argument."""


def _for_others(tls: Tls | None, given: Given) -> Tls | None:
    """Return what encrypts the calls of another. Raises Refused where our certificate would be their name."""
    if tls is not None and tls.cert and given.auth is None:
        raise Refused(
            "say who you are, by the header Authorization: the certificate of this server is its own"
        )
    return tls


def _of_task(tls: Tls | None) -> Auth | None:
    """Return the identity of the task in which this runs, where it has one."""
    import os

    file, addresses = os.environ.get("PELOTON_TOKEN_FILE"), os.environ.get("JOBMGR_URL")
    if not file or not addresses:
        return None
    from peloton.client.task_identity import task_auth

    return task_auth(file, addresses, tls)


def _warn_where_open(file: str | None) -> None:
    """Warn of a file with a password or a key that others on this machine can use."""
    if not file:
        return
    import os

    from peloton.cli.output import say

    with suppress(OSError):  # whoever reads it says so
        if os.stat(file).st_mode & 0o077:  # noqa: PTH116 - the import of pathlib takes longer
            say(f"warning: others on this machine can use {file}: `chmod 600 {file}`")
