"""The tools that read pools, hosts, and the cluster as a whole."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.cli.host_states import LOST, lost_text, state_of
from peloton.cli.job_names import job_names
from peloton.cli.overview import KINDS, HostUse, read, read_hosts
from peloton.cli.overview_text import troubles_of
from peloton.cli.session import Session, pool_id
from peloton.client.rpcs import RPCS
from peloton.errors import InvalidArgument, NotFound
from peloton.mcp import answers
from peloton.mcp.bounds import AnyPool, Name, Names, PoolPath, Rows, Skip
from peloton.model.amounts import amount_of
from peloton.present.holds import held_text
from peloton.present.texts import clean
from peloton.present.times import short_time
from peloton.private.access import access_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.resmgr.monitoring import monitoring_pb2 as pb

if TYPE_CHECKING:
    from peloton.private.resmgr.monitoring.monitoring_pb2 import Amounts

SMALL = 1e-6
"""Amounts that differ by less are the same."""
STATES = ("UP", "DRAINING", "DRAINED", "DOWN", LOST)


def cluster_status(session: Session) -> answers.Status:
    """Show the cluster as a whole: what is wrong now, daemons, hosts, capacity, jobs and tasks by state."""
    found = read(session)
    capacity, jobs = found.capacity, found.jobs
    return answers.Status(
        wrong_now=list(troubles_of(found)),
        daemons=[
            answers.Daemon(
                role=each.role, address=each.address, answers=not each.failure, failure=each.failure
            )
            for each in found.daemons
        ],
        hosts=dict(found.hosts) if found.hosts is not None else None,
        used=dict(capacity.used) if capacity is not None else None,
        capacity=dict(capacity.total) if capacity is not None else None,
        jobs=dict(jobs.counts) if jobs is not None else None,
        tasks=dict(jobs.tasks()) if jobs is not None else None,
    )


def list_pools(
    session: Session,
    under: Annotated[AnyPool, Field(description="only this pool and those below it; empty: all")] = "",
    limit: Rows = 100,
    skip: Skip = 0,
) -> answers.Pools:
    """List resource pools: what they hold, are entitled to and ask for, by kind; and who is above that."""
    pools = session.call(RPCS.monitoring_svc.ListPools, pb.ListPoolsRequest()).pools
    below = under.rstrip("/")
    kept = [pool for pool in pools if f"{pool.path.rstrip('/')}/".startswith(f"{below}/")]
    if not kept:
        raise NotFound(f"there is no resource pool {under!r}; `list_pools` without `under` lists them")
    return answers.Pools(pools=[_pool(pool) for pool in kept[skip : skip + limit]], total=len(kept))


def pool_queue(session: Session, pool: PoolPath, limit: Rows = 20, skip: Skip = 0) -> answers.Queues:
    """List the gangs that wait in a pool's queues, in the order of admission, each with why it waits."""
    request = pb.GetQueuesRequest(pool_id=pool_id(session, pool), offset=skip, limit=limit)
    queues = session.call(RPCS.monitoring_svc.GetQueues, request).queues
    names = job_names(session, (gang.job_id.value for queue in queues for gang in queue.gangs))
    return answers.Queues(
        pool=pool,
        queues=[
            answers.Queue(
                name=queue.name,
                length=queue.length,
                gangs=[
                    answers.QueuedGang(
                        position=gang.position,
                        job_id=gang.job_id.value,
                        job_name=names.get(gang.job_id.value, ""),
                        instance=gang.instance,
                        tasks=gang.size,
                        priority=gang.priority,
                        asks=_in_words(gang.asks),
                        since=short_time(gang.since),
                        why=clean(gang.why),
                    )
                    for gang in queue.gangs
                ],
            )
            for queue in queues
        ],
    )


def list_preemptions(session: Session, pool: AnyPool = "", limit: Rows = 20) -> answers.Preemptions:
    """List what was evicted lately of a pool, or for it, and why."""
    request = pb.GetPreemptionsRequest(pool_id=pool_id(session, pool) if pool else "", limit=limit)
    found = session.call(RPCS.monitoring_svc.GetPreemptions, request).preemptions
    names = job_names(session, (each.job_id.value for each in found))
    return answers.Preemptions(
        preemptions=[
            answers.Preemption(
                time=short_time(each.time),
                pool=each.pool,
                benefits=each.benefits,
                reason=clean(each.reason),
                job_id=each.job_id.value,
                job_name=names.get(each.job_id.value, ""),
                tasks=each.size,
            )
            for each in found
        ]
    )


def list_hosts(
    session: Session,
    states: Annotated[Names, Field(description=f"of {', '.join(STATES)}; empty: all")] = [],  # noqa: B006
    hostname: Annotated[Name, Field(description="a part of the name; empty: all")] = "",
    limit: Rows = 50,
    skip: Skip = 0,
) -> answers.Hosts:
    """List hosts by name: state, host pool, labels, and what of their capacity is in use."""
    wanted = {state.upper() for state in states}
    if unknown := sorted(wanted - {*STATES}):
        raise InvalidArgument("states", unknown[0], f"one of {', '.join(STATES)}")
    request = host_svc_pb2.QueryHostsRequest(include_lost=True)
    infos = [
        info
        for answer in session.call_clusters(RPCS.host_svc.QueryHosts, request)
        for info in answer.host_infos
    ]
    kept = sorted(
        (each for each in infos if hostname in each.hostname and (not wanted or state_of(each) in wanted)),
        key=lambda each: each.hostname,
    )
    uses = {use.name: use for use in read_hosts(session)}
    return answers.Hosts(
        hosts=[_host(info, uses.get(info.hostname)) for info in kept[skip : skip + limit]],
        by_state=dict(Counter(map(state_of, infos))),
        total=len(kept),
    )


def host_tasks(
    session: Session, hostname: Annotated[Name, Field(min_length=1)], limit: Rows = 50
) -> answers.HostTasks:
    """Show what runs on a host, and what of it is free."""
    request = hostsvc_pb2.GetHostsByQueryRequest(hostnames=[hostname])
    found = session.call(RPCS.hostmgr_svc.GetHostsByQuery, request).hosts
    if not found:
        raise NotFound(f"no host {hostname!r} is in service; `list_hosts` lists them")
    host = found[0]
    free: Counter[str] = Counter()
    for resource in host.resources:
        free[_KIND_OF.get(resource.name, resource.name)] += resource.scalar.value  # type: ignore[assignment]
    runs = sorted(task.value for task in host.tasks)
    return answers.HostTasks(
        hostname=host.hostname,
        status=host.status,
        free={kind: free[kind] for kind in KINDS},
        runs=runs[:limit],
        total=len(runs),
    )


def whoami(session: Session) -> answers.Caller:
    """Tell for whom the job manager takes the caller, with the roles that decide what may be done."""
    found = session.call(RPCS.jobmgr_access_svc.GetCaller, access_pb2.GetCallerRequest())
    return answers.Caller(name=found.name, kind=found.kind, roles=list(found.roles))


CLUSTER_TOOLS = (
    cluster_status,
    list_pools,
    pool_queue,
    list_preemptions,
    list_hosts,
    host_tasks,
    whoami,
)
_KIND_OF = {"cpus": "cpu", "mem": "memory", "gpus": "gpu"}


def _pool(pool: pb.Pool) -> answers.Pool:
    amounts = [_amounts(pool, kind) for kind in KINDS]
    return answers.Pool(
        path=pool.path,
        leaf=pool.leaf,
        tasks=pool.tasks,
        waiting_gangs=pool.waiting,
        over_entitlement=[each.kind for each in amounts if each.over_entitlement > 0],
        amounts=amounts,
    )


def _amounts(pool: pb.Pool, kind: str) -> answers.KindAmounts:
    def of(name: str) -> float:
        return float(getattr(getattr(pool, name), kind))

    over = of("allocation") - of("entitlement")
    return answers.KindAmounts(
        kind=kind,
        reservation=of("reservation"),
        limit=of("limit"),
        share=of("share"),
        entitlement=of("entitlement"),
        allocation=of("allocation"),
        demand=of("demand"),
        over_entitlement=over if over > SMALL else 0.0,
    )


def _in_words(amounts: Amounts) -> str:
    found = [amount_of(value, kind) for kind in KINDS if (value := getattr(amounts, kind)) > 0]
    return ", ".join(found) or "nothing"


def _host(info: host_pb2.HostInfo, use: HostUse | None) -> answers.Host:
    return answers.Host(
        hostname=info.hostname,
        state=state_of(info),
        host_pool=info.current_pool,
        labels={label.key: label.value for label in info.labels},
        used=dict(use.amounts.used) if use is not None else {},
        capacity=dict(use.amounts.total) if use is not None else {},
        lost=clean(lost_text(info.lost)) if info.HasField("lost") else "",
        held=held_text(info.held),
    )
