"""Comparisons of gangs with hosts, over several clusters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from peloton.model.shortage import Lack, Shortage
from peloton.private.hostmgr.feasibility import feasibility_pb2 as pb
from peloton.private.hostmgr.matching import matching_pb2
from peloton.wire.feasibility import shortage_from

# Versions: that of hosts of several clusters names the version of each, so that it changes when one of them
# does, is lost or comes back.


def merged_version(versions: Mapping[str, str]) -> str:
    """Return the version of the hosts of clusters, given with theirs."""
    return json.dumps(dict(versions), sort_keys=True)


def versions_of(version: str) -> dict[str, str]:
    """Return the version of each cluster's hosts; nothing where it is none of several clusters."""
    try:
        found = json.loads(version or "{}")
    except ValueError:
        return {}
    return {str(name): str(each) for name, each in found.items()} if isinstance(found, dict) else {}


# Comparison of gangs with empty hosts. A gang fits if it does in one cluster. One that fits in none may still
# fit in all together: room for its tasks is summed.


def expanded(gangs: Sequence[pb.GangShape]) -> tuple[list[pb.GangShape], list[int]]:
    """Return the gangs, each of several kinds of tasks followed by a gang of each kind, and their positions.

    Each kind may fit in another cluster.
    """
    found: list[pb.GangShape] = []
    first = []
    for gang in gangs:
        first.append(len(found))
        found.append(gang)
        if len(gang.members) > 1:
            found += [pb.GangShape(members=[members], spread=gang.spread) for members in gang.members]
    return found, first


def verdicts_by_gang(answers: Sequence[pb.CheckGangsResponse]) -> list[list[Shortage | None]]:
    """Return for each gang what it lacks in each cluster; None where it fits."""
    same = zip(*(answer.verdicts for answer in answers), strict=True)
    return [[_shortage(verdict) for verdict in each] for each in same]


def shortage_over_clusters(
    whole: Sequence[Shortage | None], kinds: Sequence[Sequence[Shortage | None]]
) -> Shortage | None:
    """Return the shortage of a gang, by those of the whole and of each kind of its tasks in each cluster."""
    if any(each is None for each in whole):
        return None
    for kind in kinds:
        lacking = _of_kind(kind)
        if lacking is not None:
            return lacking
    return _of_kind(whole) if not kinds else _together(whole)


def _of_kind(found: Sequence[Shortage | None]) -> Shortage | None:
    """Return the shortage of equal tasks over all clusters; None where they fit."""
    lacking = [each for each in found if each is not None]
    if len(lacking) < len(found):
        return None
    rooms = [each for each in lacking if each.lack is Lack.ROOM]
    if rooms:
        return _sum(rooms)
    largest = max(lacking, key=lambda each: (each.largest, each.hosts), default=None)
    if largest is not None and len({(each.lack, each.kind, each.label) for each in lacking}) > 1:
        # A change may help in one cluster that does not help in another: any kind of it counts.
        return replace(largest, lack=Lack.COMBINATION, detail=str(largest))
    return largest


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


def _shortage(verdict: pb.Verdict) -> Shortage | None:
    return shortage_from(verdict.shortage) if verdict.HasField("shortage") else None


# What changed hosts offer, and which hosts match.


def merged_gains(answers: Mapping[str, pb.GetHostGainsResponse]) -> pb.GetHostGainsResponse:
    """Return what changed hosts of all clusters offer.

    A cluster that was lost or unknown at the version that was asked for counts as changed in every way.
    """
    version = merged_version({name: answer.hosts_version for name, answer in answers.items()})
    whole = pb.GetHostGainsResponse(hosts_version=version)
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


def merged_matches(
    answers: Mapping[str, matching_pb2.MatchHostsResponse], clusters: int
) -> matching_pb2.MatchHostsResponse:
    """Return the hosts that match in all clusters; complete where each of `clusters` has answered so."""
    whole = matching_pb2.MatchHostsResponse(complete=len(answers) == clusters)
    whole.hosts_version = merged_version({name: answer.hosts_version for name, answer in answers.items()})
    for answer in answers.values():
        whole.complete &= answer.complete
        whole.disconnected.extend(answer.disconnected)
    for same in zip(*(answer.matches for answer in answers.values()), strict=True):
        whole.matches.add(
            hostnames=[name for each in same for name in each.hostnames],
            elsewhere=any(each.elsewhere for each in same),
        )
    return whole
