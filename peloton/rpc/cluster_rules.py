"""How methods of host managers are called where there are several Mesos clusters (`peloton.rpc.clusters`)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from peloton.model.cluster import cluster_of
from peloton.model.shortage import Lack, Shortage
from peloton.private.hostmgr.feasibility import feasibility_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.matching import matching_pb2
from peloton.private.hostmgr.reservations import reservations_pb2
from peloton.rpc.clusters import FanOut, Rule
from peloton.wire.feasibility import shortage_from, shortage_to
from peloton.wire.host_pools import merged_pools

NameOf = Callable[[Any], str]


async def _all(fan: FanOut, request: Any) -> Any:
    """Call all clusters; concatenate the lists in their answers."""
    return _concatenated((await fan.all(dict.fromkeys(fan.names, request))).values())


async def _of_host(fan: FanOut, request: Any) -> Any:
    """Call the cluster of the host that the request names; all where it names none."""
    if not request.hostname:
        return await _all(fan, request)
    cluster = cluster_of(request.hostname)
    answer = await fan.one(cluster, request) if cluster in fan.names else None
    if answer is None:
        raise fan.none_answers([cluster])
    return answer


def _by_host(field: str, name_of: NameOf) -> Rule:
    """Return the rule that sends each item of a list to the cluster of its host."""

    async def rule(fan: FanOut, request: Any) -> Any:
        parts: dict[str, Any] = {}
        for item in getattr(request, field):
            cluster = cluster_of(name_of(item))
            if cluster in fan.names:
                part = parts.setdefault(cluster, _without(request, field))
                getattr(part, field).append(item)
        return _concatenated((await fan.all(parts)).values()) if parts else await _all(fan, request)

    return rule


def _without(request: Any, field: str) -> Any:
    part = type(request)()
    part.CopyFrom(request)
    part.ClearField(field)
    return part


def _concatenated(answers: Iterable[Any]) -> Any:
    whole = None
    for answer in answers:
        if whole is None:
            whole = type(answer)()
        whole.MergeFrom(answer)
    return whole


async def _acquire(fan: FanOut, request: Any) -> Any:
    """Claim hosts in one cluster after the other, until there are enough; each call begins with another one.

    A claim that names hosts goes to their clusters only.
    """
    whole, answered = hostsvc_pb2.AcquireHostOffersResponse(), False
    named = {cluster_of(host.hostname) for host in request.filter.hint.hostHint}
    most = request.filter.quantity.maxHosts
    part = hostsvc_pb2.AcquireHostOffersRequest()
    part.CopyFrom(request)
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
    if not answered and not named:
        raise fan.none_answers(fan.names)
    if whole.hostOffers:
        whole.ClearField("error")
    return whole


# Comparison of gangs with empty hosts.

_Gang = feasibility_pb2.GangShape
GANGS_PER_CALL = 1000
"""Most gangs that a host manager compares in one call."""


async def _check_gangs(fan: FanOut, request: Any) -> Any:
    """Compare gangs with the hosts of all clusters that answer.

    A gang fits if it does in one of them. One that fits in none may still fit in all together: room for its
    tasks is summed. The version is that of each cluster's hosts: it changes when a cluster is lost or back.
    """
    gangs, first = _expanded(request.gangs)
    found: list[list[Shortage | None]] = []
    version = ""
    for start in range(0, len(gangs), GANGS_PER_CALL):
        part = feasibility_pb2.CheckGangsRequest(gangs=gangs[start : start + GANGS_PER_CALL])
        answers = await fan.all(dict.fromkeys(fan.names, part))
        versions = {name: answer.hosts_version for name, answer in answers.items()}
        version = version or json.dumps(versions, sort_keys=True)
        verdicts = zip(*(answer.verdicts for answer in answers.values()), strict=True)
        found += ([_shortage(each) for each in same] for same in verdicts)
    whole = feasibility_pb2.CheckGangsResponse(hosts_version=version)
    for gang, at in zip(request.gangs, first, strict=True):
        count = len(gang.members)
        lacking = _of_gang(found[at], found[at + 1 : at + 1 + count] if count > 1 else ())
        whole.verdicts.add(shortage=None if lacking is None else shortage_to(lacking))
    return whole


def _expanded(gangs: Sequence[_Gang]) -> tuple[list[_Gang], list[int]]:
    """Return the gangs, each of several kinds of tasks followed by a gang of each kind, and their positions.

    Each kind may fit in another cluster.
    """
    expanded: list[_Gang] = []
    first = []
    for gang in gangs:
        first.append(len(expanded))
        expanded.append(gang)
        if len(gang.members) > 1:
            expanded += [_Gang(members=[members], spread=gang.spread) for members in gang.members]
    return expanded, first


def _of_gang(whole: Sequence[Shortage | None], kinds: Sequence[Sequence[Shortage | None]]) -> Shortage | None:
    """Return the shortage of a gang, by those of the whole and of each kind of its tasks in each cluster."""
    if any(each is None for each in whole):
        return None
    for kind in kinds:
        lacking = _summed(kind)
        if lacking is not None:
            return lacking
    return _summed(whole) if not kinds else _together(whole)


def _summed(found: Sequence[Shortage | None]) -> Shortage | None:
    """Return the shortage of equal tasks over all clusters; None where they fit."""
    lacking = [each for each in found if each is not None]
    if len(lacking) < len(found):
        return None
    rooms = [each for each in lacking if each.lack is Lack.ROOM]
    if not rooms:
        largest = max(lacking, key=lambda each: (each.largest, each.hosts), default=None)
        if largest is not None and len({(each.lack, each.kind, each.label) for each in lacking}) > 1:
            # A change may help in one cluster that does not help in another: any kind of it counts.
            return replace(largest, lack=Lack.COMBINATION, detail=str(largest))
        return largest
    return _sum(rooms)


def _together(whole: Sequence[Shortage | None]) -> Shortage | None:
    """Return the shortage of a gang each of whose kinds of tasks fits alone; None where it may fit."""
    lacking = [each for each in whole if each is not None]
    same = {(each.lack, each.kind) for each in lacking}
    if len(same) == 1 and lacking[0].lack in (Lack.ROOM, Lack.CAPACITY):
        return _sum(lacking)
    return None


def _sum(lacking: Sequence[Shortage]) -> Shortage | None:
    first, largest = lacking[0], sum(each.largest for each in lacking)
    if largest >= first.needed:
        return None
    return Shortage(first.lack, first.kind, first.needed, largest, sum(each.hosts for each in lacking))


def _shortage(verdict: Any) -> Shortage | None:
    return shortage_from(verdict.shortage) if verdict.HasField("shortage") else None


async def _host_gains(fan: FanOut, request: Any) -> Any:
    """Return what changed hosts of all clusters offer. The version is that of each cluster's hosts.

    A cluster that was lost or unknown at the version of the request counts as changed in every way.
    """
    try:
        since = dict(json.loads(request.hosts_version or "{}"))
    except ValueError:
        since = {}
    part = feasibility_pb2.GetHostGainsRequest
    answers = await fan.all({name: part(hosts_version=str(since.get(name, ""))) for name in fan.names})
    versions = {name: answer.hosts_version for name, answer in answers.items()}
    whole = feasibility_pb2.GetHostGainsResponse(hosts_version=json.dumps(versions, sort_keys=True))
    if any(answer.unknown_version for answer in answers.values()):
        whole.unknown_version = True
        return whole
    for answer in answers.values():
        whole.hosts += answer.hosts
        whole.relabelled += answer.relabelled
        whole.plain |= answer.plain
        whole.many_labels |= answer.many_labels
        whole.labels.extend(answer.labels)
        for kind, amount in answer.largest.items():
            whole.largest[kind] = max(whole.largest[kind], amount)
    return whole


async def _find_hosts(fan: FanOut, request: Any) -> Any:
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


MOST_FOUND = 10_000
"""Most hosts that a host manager returns in one answer."""


async def _match_hosts(fan: FanOut, request: Any) -> Any:
    """Return the hosts of all clusters that match, as they are now: to wait is for calls to one cluster."""
    part = matching_pb2.MatchHostsRequest(
        filters=request.filters, by_size=request.by_size, host_pools=request.host_pools
    )
    answers = await fan.all(dict.fromkeys(fan.names, part))
    whole = matching_pb2.MatchHostsResponse(complete=len(answers) == len(fan.names))
    versions = {name: answer.hosts_version for name, answer in answers.items()}
    whole.hosts_version = json.dumps(versions, sort_keys=True)
    for answer in answers.values():
        whole.complete &= answer.complete
        whole.disconnected.extend(answer.disconnected)
    for same in zip(*(answer.matches for answer in answers.values()), strict=True):
        whole.matches.add(hostnames=[name for each in same for name in each.hostnames])
    return whole


async def _reserve(fan: FanOut, request: Any) -> Any:
    """Reserve a host of one cluster: the first of those that would do decides."""
    hosts = request.reservation.hosts
    cluster = cluster_of(hosts[0].hostname) if hosts else fan.names[0]
    part = hostsvc_pb2.ReserveHostsRequest()
    part.CopyFrom(request)
    del part.reservation.hosts[:]
    part.reservation.hosts.extend(host for host in hosts if cluster_of(host.hostname) == cluster)
    answer = await fan.one(cluster, part) if cluster in fan.names else None
    if answer is None:
        raise fan.none_answers([cluster])
    return answer


async def _reserve_for_gangs(fan: FanOut, request: Any) -> Any:
    """Hold hosts for gangs in each cluster, until one of them has all hosts for a gang.

    A gang that is held for goes to one cluster, and to the first that is ready.
    """
    found: dict[str, dict[str, Any]] = {wish.id: {} for wish in request.wishes}
    waiting = list(request.wishes)
    for cluster in fan.names:
        part = reservations_pb2.ReserveForGangsRequest(wishes=waiting)
        answer = await fan.one(cluster, part) if waiting else None
        for wish, progress in zip(waiting, answer.progress, strict=True) if answer is not None else ():
            found[wish.id][cluster] = progress
        waiting = [wish for wish in waiting if not any(each.claims for each in found[wish.id].values())]
    if not all(found.values()):
        raise fan.none_answers(fan.names)
    ready = {wish: name for wish, each in found.items() for name in each if each[name].claims}
    await _cancel_others(fan, ready)
    best = (min(each.values(), key=_distance) for each in found.values())
    return reservations_pb2.ReserveForGangsResponse(progress=best)


async def _cancel_others(fan: FanOut, ready: Mapping[str, str]) -> None:
    """End the reservations of gangs, given with their clusters, in the other clusters."""
    for cluster in fan.names:
        ids = [wish for wish, own in ready.items() if own != cluster]
        if ids:
            request = reservations_pb2.CancelReservationsRequest(ids=ids)
            await fan.one(cluster, request, "CancelReservations")


def _distance(progress: Any) -> tuple[bool, float, int]:
    """Return how far from its start a gang is: a ready one first, then by its expected start."""
    start = progress.start_seconds if progress.HasField("start_seconds") else math.inf
    return not progress.claims, start, -progress.reserved


async def _backfill(fan: FanOut, request: Any) -> Any:
    """Claim hosts in one cluster after the other, until there are enough."""
    whole, most = reservations_pb2.AcquireForBackfillResponse(), request.filter.quantity.maxHosts
    part = reservations_pb2.AcquireForBackfillRequest()
    part.CopyFrom(request)
    answered = False
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


async def _host_pools(fan: FanOut, request: Any) -> Any:
    """Return the host pools of all clusters, each name once."""
    answers = await fan.all(dict.fromkeys(fan.names, request))
    return merged_pools(answers[name] for name in sorted(answers))


def _hostname(item: Any) -> str:
    return str(item.hostname)


RULES: Mapping[str, Rule] = {
    "AcquireForBackfill": _backfill,
    "AcquireHostOffers": _acquire,
    "CancelReservations": _all,
    "ChangeHostPool": _of_host,
    "CheckGangs": _check_gangs,
    "CompleteMaintenance": _by_host("hostnames", str),
    "CreateHostPool": _all,
    "DeleteHostPool": _all,
    "FindHosts": _find_hosts,
    "GetCompletedReservations": _all,
    "GetDrainingHosts": _all,
    "GetHistory": _of_host,
    "GetMaintenances": _all,
    "GetHostCache": _all,
    "GetHostGains": _host_gains,
    "GetHostPoolCapacity": _all,
    "GetHosts": _all,
    "GetHostsByQuery": _all,
    "GetMesosAgentInfo": _of_host,
    "LaunchTasks": _of_host,
    "ListHostPools": _host_pools,
    "MarkHostDrained": _of_host,
    "MatchHosts": _match_hosts,
    "QueryHosts": _all,
    "ReleaseHostOffers": _by_host("hostOffers", _hostname),
    "ReserveForGangs": _reserve_for_gangs,
    "ReserveHosts": _reserve,
    "StartMaintenance": _by_host("hostnames", str),
}
"""By method. Methods that are not here are called by cluster."""
