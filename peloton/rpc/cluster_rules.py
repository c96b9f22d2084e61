"""How calls of host managers are made where there are several Mesos clusters (`peloton.rpc.clusters`)."""

from __future__ import annotations

from typing import Any, TypeVar

from google.protobuf.message import Message

from peloton.api.v0.host.svc import host_svc_pb2 as v0
from peloton.api.v1alpha.host.svc import host_svc_pb2 as v1alpha
from peloton.calls import jobmgr, operators, placement, resmgr
from peloton.merging.answers import NameOf, copied, joined, split_by_host
from peloton.merging.gangs_over_clusters import (
    expanded,
    merged_gains,
    merged_matches,
    merged_version,
    shortage_over_clusters,
    verdicts_by_gang,
    versions_of,
)
from peloton.merging.host_pools import merged_pools
from peloton.merging.reservations import Wishes
from peloton.model.cluster import cluster_of
from peloton.model.shortage import Shortage
from peloton.private.hostmgr.feasibility import feasibility_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.launching import launching_pb2
from peloton.private.hostmgr.matching import matching_pb2
from peloton.private.hostmgr.reservations import reservations_pb2
from peloton.rpc.clusters import FanOut, Rule, Rules, described, gathered
from peloton.wire.feasibility import shortage_to

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)
P = TypeVar("P", v0.ListHostPoolsResponse, v1alpha.ListHostPoolsResponse)
GANGS_PER_CALL = 1000
"""Most gangs that a host manager compares in one call."""
MOST_FOUND = 10_000
"""Most hosts that a host manager returns in one answer."""


async def _all(fan: FanOut[Q, A], request: Q) -> A:
    """Call all clusters; concatenate the lists in their answers."""
    return joined((await fan.all(dict.fromkeys(fan.names, request))).values())


async def _of_host(fan: FanOut[Q, A], request: Q) -> A:
    """Call the cluster of the host that the request names; all where it names none."""
    named: Any = request
    if not named.hostname:
        return await _all(fan, request)
    cluster = cluster_of(named.hostname)
    answer = await fan.one(cluster, request) if cluster in fan.names else None
    if answer is None:
        raise fan.none_answers([cluster])
    return answer


def _by_host(field: str, name_of: NameOf) -> Rule[Q, A]:
    """Return the rule that sends each item of a list to the cluster of its host."""

    async def rule(fan: FanOut[Q, A], request: Q) -> A:
        parts = split_by_host(request, field, name_of, fan.names)
        return joined((await fan.all(parts)).values()) if parts else await _all(fan, request)

    return rule


async def _of_hosts(fan: FanOut[Q, A], request: Q) -> A:
    """Call the clusters of the hosts that the request names, by a list or as one."""
    named: Any = request
    rule: Rule[Q, A] = _by_host("hostnames", str) if named.hostnames else _of_host
    return await rule(fan, request)


async def _acquire(
    fan: FanOut[hostsvc_pb2.AcquireHostOffersRequest, hostsvc_pb2.AcquireHostOffersResponse],
    request: hostsvc_pb2.AcquireHostOffersRequest,
) -> hostsvc_pb2.AcquireHostOffersResponse:
    """Claim hosts in one cluster after the other, until there are enough; each call begins with another one.

    A claim that names hosts goes to their clusters only.
    """
    whole, answered = hostsvc_pb2.AcquireHostOffersResponse(), False
    named = {cluster_of(host.hostname) for host in request.filter.hint.hostHint}
    most = request.filter.quantity.maxHosts
    part = copied(request)
    for cluster in fan.names:
        if (named and cluster not in named) or (most and len(whole.hostOffers) >= most):
            continue
        if most:
            part.filter.quantity.maxHosts = most - len(whole.hostOffers)
        answer = await fan.one(cluster, part)
        if answer is None:
            continue
        answered = True
        if answer.HasField("error"):
            whole.error.CopyFrom(answer.error)
            break
        whole.hostOffers.extend(answer.hostOffers)
        for reason, count in answer.filterResultCounts.items():
            whole.filterResultCounts[reason] += count
        whole.held.extend(answer.held)
    if not answered and not named:
        raise fan.none_answers(fan.names)
    if whole.hostOffers:
        whole.ClearField("error")
    return whole


async def _check_gangs(
    fan: FanOut[feasibility_pb2.CheckGangsRequest, feasibility_pb2.CheckGangsResponse],
    request: feasibility_pb2.CheckGangsRequest,
) -> feasibility_pb2.CheckGangsResponse:
    """Compare gangs with the hosts of all clusters that answer."""
    gangs, first = expanded(request.gangs)
    found: list[list[Shortage | None]] = []
    version = ""
    for start in range(0, len(gangs), GANGS_PER_CALL):
        part = feasibility_pb2.CheckGangsRequest(gangs=gangs[start : start + GANGS_PER_CALL])
        answers = await fan.all(dict.fromkeys(fan.names, part))
        version = version or merged_version({name: each.hosts_version for name, each in answers.items()})
        found += verdicts_by_gang(list(answers.values()))
    whole = feasibility_pb2.CheckGangsResponse(hosts_version=version)
    for gang, at in zip(request.gangs, first, strict=True):
        count = len(gang.members)
        lacking = shortage_over_clusters(found[at], found[at + 1 : at + 1 + count] if count > 1 else ())
        whole.verdicts.add(shortage=None if lacking is None else shortage_to(lacking))
    return whole


async def _host_gains(
    fan: FanOut[feasibility_pb2.GetHostGainsRequest, feasibility_pb2.GetHostGainsResponse],
    request: feasibility_pb2.GetHostGainsRequest,
) -> feasibility_pb2.GetHostGainsResponse:
    """Return what changed hosts of all clusters offer, each asked from its own version on."""
    since, part = versions_of(request.hosts_version), feasibility_pb2.GetHostGainsRequest
    return merged_gains(await fan.all({name: part(hosts_version=since.get(name, "")) for name in fan.names}))


async def _find_hosts(
    fan: FanOut[feasibility_pb2.FindHostsRequest, feasibility_pb2.FindHostsResponse],
    request: feasibility_pb2.FindHostsRequest,
) -> feasibility_pb2.FindHostsResponse:
    """Return hosts that could be claimed, of one cluster after the other, in the same order each time."""
    whole, skipped = feasibility_pb2.FindHostsResponse(), request.offset
    most = request.filter.quantity.maxHosts or MOST_FOUND
    answered = False
    for cluster in sorted(fan.names):
        part = feasibility_pb2.FindHostsRequest(filter=request.filter, offset=skipped)
        left = most - len(whole.hosts)
        part.filter.quantity.maxHosts = max(left, 1)  # 0 would be no limit; the counts are wanted anyway
        answer = await fan.one(cluster, part)
        if answer is None:
            continue
        answered = True
        whole.hosts.extend(answer.hosts[:left])
        skipped -= min(skipped, answer.counts["match"])
        for result, count in answer.counts.items():
            whole.counts[result] += count
    if not answered:
        raise fan.none_answers(fan.names)
    return whole


async def _match_hosts(
    fan: FanOut[matching_pb2.MatchHostsRequest, matching_pb2.MatchHostsResponse],
    request: matching_pb2.MatchHostsRequest,
) -> matching_pb2.MatchHostsResponse:
    """Return the hosts of all clusters that match, as they are now: to wait is for calls to one cluster."""
    part = matching_pb2.MatchHostsRequest(
        filters=request.filters,
        by_size=request.by_size,
        host_pools=request.host_pools,
        among=request.among,
    )
    return merged_matches(await fan.all(dict.fromkeys(fan.names, part)), len(fan.names))


async def _reserve(
    fan: FanOut[hostsvc_pb2.ReserveHostsRequest, hostsvc_pb2.ReserveHostsResponse],
    request: hostsvc_pb2.ReserveHostsRequest,
) -> hostsvc_pb2.ReserveHostsResponse:
    """Reserve a host of one cluster: the first of those that would do decides."""
    hosts = request.reservation.hosts
    cluster = cluster_of(hosts[0].hostname) if hosts else fan.names[0]
    part = copied(request)
    del part.reservation.hosts[:]
    part.reservation.hosts.extend(host for host in hosts if cluster_of(host.hostname) == cluster)
    answer = await fan.one(cluster, part) if cluster in fan.names else None
    if answer is None:
        raise fan.none_answers([cluster])
    return answer


async def _reserve_for_gangs(
    fan: FanOut[reservations_pb2.ReserveForGangsRequest, reservations_pb2.ReserveForGangsResponse],
    request: reservations_pb2.ReserveForGangsRequest,
) -> reservations_pb2.ReserveForGangsResponse:
    """Hold hosts for gangs in each cluster, until one of them has all hosts for a gang."""
    wishes = Wishes(request.wishes)
    for cluster in fan.names:
        part = reservations_pb2.ReserveForGangsRequest(wishes=wishes.waiting)
        answer = await fan.one(cluster, part) if wishes.waiting else None
        if answer is not None:
            wishes.note(cluster, answer.progress)
    if not wishes.answered:
        raise fan.none_answers(fan.names)
    for cluster in fan.names:
        if ids := wishes.to_cancel(cluster):
            cancel = reservations_pb2.CancelReservationsRequest(ids=ids)
            await fan.other(placement.CANCEL_RESERVATIONS, cluster, cancel)
    return wishes.merged()


async def _backfill(
    fan: FanOut[reservations_pb2.AcquireForBackfillRequest, reservations_pb2.AcquireForBackfillResponse],
    request: reservations_pb2.AcquireForBackfillRequest,
) -> reservations_pb2.AcquireForBackfillResponse:
    """Claim hosts in one cluster after the other, until there are enough."""
    whole, most = reservations_pb2.AcquireForBackfillResponse(), request.filter.quantity.maxHosts
    part, answered = copied(request), False
    for cluster in fan.names:
        if most and len(whole.claims) >= most:
            break
        if most:
            part.filter.quantity.maxHosts = most - len(whole.claims)
        if (answer := await fan.one(cluster, part)) is not None:
            answered = True
            whole.claims.extend(answer.claims)
            whole.open |= answer.open
    if not answered:
        raise fan.none_answers(fan.names)
    return whole


async def _host_pools(fan: FanOut[Q, P], request: Q) -> P:
    """Return the host pools of all clusters, each name once."""
    answers = await fan.all(dict.fromkeys(fan.names, request))
    return merged_pools(answers[name] for name in sorted(answers))


async def _try_tasks(
    fan: FanOut[launching_pb2.TryTasksRequest, launching_pb2.TryTasksResponse],
    request: launching_pb2.TryTasksRequest,
) -> launching_pb2.TryTasksResponse:
    """Return why no cluster takes a task; one that does not answer may take it."""
    answers = await gathered({name: fan.one(name, request) for name in sorted(fan.names)})
    whole = launching_pb2.TryTasksResponse()
    for place in range(len(request.configs)):
        told = {name: "" if each is None else each.refusals[place] for name, each in answers.items()}
        texts = [f"{described(name)}: {text}" for name, text in told.items()]
        whole.refusals.append("; ".join(texts) if all(told.values()) else "")
    return whole


def _hostname(item: Any) -> str:
    return str(item.hostname)


RULES = Rules()
"""Calls that are not here are made to one cluster."""
RULES.add(placement.ACQUIRE_FOR_BACKFILL, _backfill)
RULES.add(placement.ACQUIRE_HOST_OFFERS, _acquire)
RULES.add(placement.CANCEL_RESERVATIONS, _all)
RULES.add(placement.CHECK_GANGS, _check_gangs)
RULES.add(placement.FIND_HOSTS, _find_hosts)
RULES.add(placement.RELEASE_HOST_OFFERS, _by_host("hostOffers", _hostname))
RULES.add(placement.RESERVE_FOR_GANGS, _reserve_for_gangs)
RULES.add(jobmgr.GET_MAINTENANCES, _all)
RULES.add(jobmgr.LAUNCH_TASKS, _of_host)
RULES.add(jobmgr.MATCH_HOSTS, _match_hosts)
RULES.add(jobmgr.TRY_TASKS, _try_tasks)
RULES.add(resmgr.GET_DRAINING_HOSTS, _all)
RULES.add(resmgr.GET_HOST_GAINS, _host_gains)
RULES.add(resmgr.GET_HOST_POOL_CAPACITY, _all)
RULES.add(resmgr.GET_MESOS_AGENT_INFO, _of_host)
RULES.add(resmgr.MARK_HOST_DRAINED, _of_host)
RULES.add(operators.QUERY_HOSTS, _all)
RULES.add(operators.START_MAINTENANCE, _of_hosts)
RULES.add(operators.COMPLETE_MAINTENANCE, _of_hosts)
RULES.add(operators.LIST_HOST_POOLS, _host_pools)
RULES.add(operators.CREATE_HOST_POOL, _all)
RULES.add(operators.DELETE_HOST_POOL, _all)
RULES.add(operators.CHANGE_HOST_POOL, _of_host)
RULES.add(operators.QUERY_HOSTS_V1ALPHA, _all)
RULES.add(operators.START_MAINTENANCE_V1ALPHA, _of_hosts)
RULES.add(operators.COMPLETE_MAINTENANCE_V1ALPHA, _of_hosts)
RULES.add(operators.LIST_HOST_POOLS_V1ALPHA, _host_pools)
RULES.add(operators.CREATE_HOST_POOL_V1ALPHA, _all)
RULES.add(operators.DELETE_HOST_POOL_V1ALPHA, _all)
RULES.add(operators.CHANGE_HOST_POOL_V1ALPHA, _of_host)
RULES.add(operators.FORGET_HOSTS, _by_host("hostnames", str))
RULES.add(operators.GET_HISTORY, _of_host)
RULES.add(operators.LIST_CHANGES, _all)
RULES.add(operators.LIST_USED_HOSTS, _by_host("hostnames", str))
RULES.add(operators.LIST_PROBLEMS, _all)
RULES.add(operators.GET_HOST_CACHE, _all)
RULES.add(operators.GET_HOSTS, _all)
RULES.add(operators.GET_HOSTS_BY_QUERY, _all)
RULES.add(operators.RESERVE_HOSTS, _reserve)
RULES.add(operators.GET_COMPLETED_RESERVATIONS, _all)
