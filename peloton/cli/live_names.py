"""Names for the completion of the shell, asked of the cluster: at once, or nothing.

The shell waits while the user does: calls have little time, and every failure is silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import click
from click.shell_completion import CompletionItem

from peloton.cli.session import Session
from peloton.client.rpcs import RPCS
from peloton.model.plural import plural

TIMEOUT_SECONDS = 1.0
MOST = 100
"""Jobs that are looked at: the newest."""
Named = Iterable[tuple[str, str]]
"""Values with what they are."""
Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete the name of a file."""
    return [CompletionItem(incomplete, type="file")]


def _live(read: Callable[[Session, str], Named]) -> Complete:
    """Return a completion of the values that `read` finds for the text so far."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        import grpc

        from peloton.errors import PelotonError

        session = None
        try:
            session = _session(ctx)
            return [CompletionItem(value, help=text) for value, text in read(session, incomplete)]
        except (PelotonError, click.ClickException, grpc.RpcError, OSError):
            return []
        finally:
            if session is not None:
                session.close()

    return complete


def _session(ctx: click.Context) -> Session:
    """Return a quick and quiet session for the global flags on the line so far."""
    from peloton.cli.app import session_of

    root = ctx.find_root()
    found = session_of(root, root.params)
    found.timeout, found.quiet = TIMEOUT_SECONDS, True
    found.targets = replace(found.targets, timeout=TIMEOUT_SECONDS)
    return found


def _jobs(session: Session, start: str) -> Iterator[tuple[str, str]]:
    """Yield the newest jobs whose id or name begins so."""
    from peloton.api.v0.job import job_pb2
    from peloton.api.v0.query import query_pb2

    spec = job_pb2.QuerySpec(pagination=query_pb2.PaginationSpec(limit=MOST))
    request = job_pb2.QueryRequest(spec=spec, summaryOnly=True)
    for job in session.call(RPCS.job_svc.Query, request).results:
        if job.id.value.startswith(start) or (start and job.name.startswith(start)):
            yield job.id.value, f"{job.name} {job_pb2.JobState.Name(job.runtime.state)}"


def _pods(session: Session, start: str) -> Iterator[tuple[str, str]]:
    """Yield the pods of the job that the text names whole, else jobs with a dash behind."""
    from peloton.model.ids import is_uuid

    job_id = start[:36]
    if not is_uuid(job_id):
        yield from ((f"{each}-", text) for each, text in _jobs(session, start))
        return
    from peloton.api.v0 import peloton_pb2
    from peloton.api.v0.query import query_pb2
    from peloton.api.v0.task import task_pb2

    spec = task_pb2.QuerySpec(pagination=query_pb2.PaginationSpec(limit=MOST))
    request = task_pb2.QueryRequest(jobId=peloton_pb2.JobID(value=job_id), spec=spec)
    for task in session.call(RPCS.task_svc.Query, request).records:
        name = f"{job_id}-{task.instanceId}"
        if name.startswith(start):
            yield name, task_pb2.TaskState.Name(task.runtime.state)


def _pools(session: Session, start: str) -> Iterator[tuple[str, str]]:
    from peloton.api.v0.respool import respool_pb2

    for pool in session.call(RPCS.respool_svc.Query, respool_pb2.QueryRequest()).resourcePools:
        if pool.path.value.startswith(start):
            yield pool.path.value, "" if pool.children else "takes jobs"


def _hosts(session: Session, start: str) -> Iterator[tuple[str, str]]:
    from peloton.api.v0.host import host_pb2
    from peloton.api.v0.host.svc import host_svc_pb2

    for answer in session.call_clusters(RPCS.host_svc.QueryHosts, host_svc_pb2.QueryHostsRequest()):
        for host in answer.host_infos:
            if host.hostname.startswith(start):
                yield host.hostname, host_pb2.HostState.Name(host.state).removeprefix("HOST_STATE_")


def _host_pools(session: Session, start: str) -> Iterator[tuple[str, str]]:
    from peloton.api.v0.host.svc import host_svc_pb2
    from peloton.merging.host_pools import merged_pools

    found = session.call_clusters(RPCS.host_svc.ListHostPools, host_svc_pb2.ListHostPoolsRequest())
    for pool in merged_pools(found).pools:
        if pool.name.startswith(start):
            yield pool.name, plural(len(pool.hosts), "host")


live_jobs = _live(_jobs)
live_pods = _live(_pods)
live_pools = _live(_pools)
live_hosts = _live(_hosts)
live_host_pools = _live(_host_pools)


def script(root: Any, shell: str) -> str:
    """Return what a shell has to evaluate so that it completes the commands of `root`."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None, shell
    source = found(root, {}, "peloton", "_PELOTON_COMPLETE").source()
    # What a word is may be told with commas.
    return source.replace('(string split "," ', '(string split --max 1 "," ')
