"""Faults of job managers that share the work.

Any one of them is killed, frozen, cut off from ZooKeeper, leaves in order, or joins.
"""

from __future__ import annotations

import signal
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.client.discovery import DiscoveryError
from peloton.model.shard import SHARDS, shard_of
from peloton.private.jobmgr.sharing import sharing_pb2
from peloton.sharding.claims import terms_of
from tests.faults.fault import SHARED, SIMULATED, ZOOKEEPER, Fault, FaultContext, FaultWithin
from tests.faults.large_service import InLargeUpdate
from tests.faults.service_faults import in_services
from tests.faults.testbed import Testbed, until
from tests.faults.workflow_faults import InWorkflow

SETTLE_SECONDS = 60.0
"""Until all shards have owners again, each a fair part."""
PAUSE_SECONDS = 0.02
CALL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class OwnerFault:
    """Something happens to one of the owners. Afterwards all shards are divided fairly again."""

    needs: frozenset[str] = SHARED
    long: bool = False

    def strike(self, at: FaultContext) -> None:
        """Raise TimeoutError where shards are not divided in time, before or afterwards."""
        settled(at.testbed)
        before = owners(at.testbed)
        name = at.random.choice(sorted(before))
        at.workload.before_owners_change(before[name].shards, kept_by_others(name, before))
        with _calls_about_others(at, name, before):
            self.happen(at, name)
        settled(at.testbed)

    def happen(self, at: FaultContext, name: str) -> None:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class KillOwner(OwnerFault):
    """SIGKILL; a supervisor starts it again."""

    def happen(self, at: FaultContext, name: str) -> None:
        at.testbed.kill(name)
        at.wait(0.5, 3 * at.testbed.setup.session_seconds)
        at.testbed.start(name)


@dataclass(frozen=True, slots=True)
class LeavingOwner(OwnerFault):
    """SIGTERM: it hands its shards over, ends, and joins again."""

    def happen(self, at: FaultContext, name: str) -> None:
        at.testbed.stop(name)
        at.wait(0.2, 3)
        at.testbed.start(name)


@dataclass(frozen=True, slots=True)
class FreezeOwner(OwnerFault):
    """SIGSTOP past the end of its session; others own its shards; SIGCONT, and it believes it owns them."""

    needs: frozenset[str] = SHARED | ZOOKEEPER

    def happen(self, at: FaultContext, name: str) -> None:
        session = at.testbed.setup.session_seconds
        at.testbed.signal(name, signal.SIGSTOP)
        try:
            at.wait(1.5 * session, 2.5 * session)
        finally:
            at.testbed.signal(name, signal.SIGCONT)


@dataclass(frozen=True, slots=True)
class CutOffOwner(OwnerFault):
    """It alone does not reach ZooKeeper, past the end of its session, and goes on running."""

    needs: frozenset[str] = SHARED | ZOOKEEPER

    def happen(self, at: FaultContext, name: str) -> None:
        session = at.testbed.setup.session_seconds
        proxy = at.testbed.zookeepers[name]
        proxy.down = True
        proxy.cut()
        try:
            at.wait(1.5 * session, 2.5 * session)
        finally:
            proxy.down = False


@dataclass(frozen=True, slots=True)
class JoiningOwner(OwnerFault):
    """One that has left before joins: each of the others gives some of its shards up meanwhile."""

    def strike(self, at: FaultContext) -> None:
        settled(at.testbed)
        name = at.random.choice(sorted(owners(at.testbed)))
        at.testbed.stop(name)
        settled(at.testbed, at.testbed.setup.sharing - 1)
        before = owners(at.testbed)
        several = [owned.shards for owned in before.values()]
        at.workload.before_owners_change(several[0], several[-1])
        with _calls_about_others(at, name, before):
            at.wait(0.2, 1)
            at.testbed.start(name)
            settled(at.testbed)


@dataclass(frozen=True, slots=True)
class Among(FaultWithin):
    """A fault of others, among owners or with simulated agents, too."""

    also: frozenset[str] = SHARED

    def __post_init__(self) -> None:
        object.__setattr__(self, "needs", self.fault.needs | self.also)

    def strike(self, at: FaultContext) -> None:
        self.fault.strike(at)


# --- who owns what ---


@dataclass(frozen=True, slots=True)
class Owned:
    """What a job manager owns."""

    address: str
    shards: frozenset[int] = field(default_factory=frozenset)


def owners(testbed: Testbed) -> dict[str, Owned]:
    """Return what each job manager owns, by the name of its component. Raise grpc.RpcError."""
    return {_named(testbed, each): Owned(each.address, _shards(each)) for each in _listed(testbed).owners}


def kept_by_others(name: str, before: Mapping[str, Owned]) -> frozenset[int]:
    """Return the shards of all job managers but one."""
    return frozenset[int]().union(*(owned.shards for each, owned in before.items() if each != name))


def settled(testbed: Testbed, count: int | None = None) -> None:
    """Wait until each of `count` job managers owns a fair part, and nothing moves. Raise TimeoutError.

    Without a count all of them do.
    """
    several = testbed.setup.sharing if count is None else count
    until(lambda: _is_fair(testbed, several), SETTLE_SECONDS, "all shards owned, in fair parts")


def _is_fair(testbed: Testbed, several: int) -> bool:
    try:
        found = _listed(testbed)
    except (grpc.RpcError, DiscoveryError):
        return False
    counts = sorted(each.count for each in found.owners)
    rests = not any(each.going or each.leaving for each in found.owners)
    whole = len(counts) == several and sum(counts) == SHARDS
    return rests and whole and counts[-1] - counts[0] <= 1


def _listed(testbed: Testbed) -> sharing_pb2.ListOwnersResponse:
    client = testbed.client
    answer: sharing_pb2.ListOwnersResponse = client.sharing_svc.ListOwners(
        sharing_pb2.ListOwnersRequest(), timeout=CALL_SECONDS
    )
    return answer


def _named(testbed: Testbed, owner: sharing_pb2.Owner) -> str:
    parts = testbed.cluster.components()
    return next(part.name for part in parts if part.addresses.get("grpc") == owner.address)


def _shards(owner: sharing_pb2.Owner) -> frozenset[int]:
    return frozenset(terms_of(f"1:{owner.shards}")) if owner.shards else frozenset()


# --- calls meanwhile ---


@contextmanager
def _calls_about_others(at: FaultContext, name: str, before: Mapping[str, Owned]) -> Iterator[None]:
    """Call another job manager while the body runs.

    Note how long calls take about jobs of those that nothing happens to, and when the shards of the one that
    something happens to are answered for again, if it has any.
    """
    kept = kept_by_others(name, before)
    over = threading.Event()
    targets = [owned.address for each, owned in before.items() if each != name]
    threads = [threading.Thread(target=_ask_on, args=(targets, list(_ids_in(kept)), over, at), daemon=True)]
    if name in before:
        lost = before[name].shards
        ask = threading.Thread(target=_until_all_answer, args=(at, targets[0], lost, over), daemon=True)
        threads.append(ask)
    for each in threads:
        each.start()
    try:
        yield
    finally:
        over.set()
        for each in threads:
            each.join(SETTLE_SECONDS)


def _ask_on(targets: Sequence[str], ids: Sequence[str], over: threading.Event, at: FaultContext) -> None:
    """Get jobs in turns, at each target its own and those of the others. A call that fails counts in full."""
    channels = [grpc.insecure_channel(each) for each in targets]
    stubs = [job_pb2_grpc.JobManagerStub(each) for each in channels]
    number = 0
    while not over.wait(PAUSE_SECONDS):
        began = time.monotonic()
        wrong = _failure(stubs[number % len(stubs)], ids[number % len(ids)], CALL_SECONDS)
        at.others.append(CALL_SECONDS if wrong else time.monotonic() - began)
        if wrong:
            at.failed[wrong] += 1
        number += 1
    for channel in channels:
        channel.close()


def _until_all_answer(at: FaultContext, target: str, shards: Iterable[int], over: threading.Event) -> None:
    """Note when each of some shards is answered for at another job manager."""
    began = time.monotonic()
    with grpc.insecure_channel(target) as channel:
        stub = job_pb2_grpc.JobManagerStub(channel)
        for job_id in _ids_in(frozenset(shards)):
            while _failure(stub, job_id, 1.0):
                if over.wait(PAUSE_SECONDS) and time.monotonic() - began > SETTLE_SECONDS:
                    return
    at.took_over("owner", time.monotonic() - began)


def _failure(stub: job_pb2_grpc.JobManagerStub, job_id: str, timeout: float) -> str:
    """Return why a call about a job that is not there is not answered so, by the owner of its shard.

    Empty where it is.
    """
    request = job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_id))
    try:
        answer = stub.Get(request, timeout=timeout)
    except grpc.RpcError as error:
        return f"{error.code().name}: {error.details()}"
    return "" if answer.error.HasField("notFound") else f"another answer: {answer.error}"


def _ids_in(shards: frozenset[int]) -> Iterator[str]:
    """Iterate over ids of jobs that are not there, one in each of some shards."""
    left, number = set(shards), 0
    while left:
        number += 1
        job_id = str(uuid.UUID(int=number, version=4))
        if shard_of(job_id) in left:
            left.remove(shard_of(job_id))
            yield job_id


def percentile(values: Sequence[float], of_100: int) -> float:
    """Return a percentile: the smallest value that this part of 100 does not exceed; 0 without values."""
    return sorted(values)[max(-(-len(values) * of_100 // 100) - 1, 0)] if values else 0.0


def of_owners(others: Mapping[str, Fault]) -> Mapping[str, Fault]:
    """Faults of owners by their names: alone, in an update, among services, with large jobs; and others'."""
    faults: Mapping[str, Fault] = {
        "kill-owner": KillOwner(),
        "freeze-owner": FreezeOwner(),
        "leave-owner": LeavingOwner(),
        "cut-off-owner": CutOffOwner(),
        "join-owner": JoiningOwner(),
    }
    return {
        **faults,
        **{f"{name}-in-update": InWorkflow(fault) for name, fault in faults.items()},
        **in_services(faults),
        **{f"{name}-in-large": InLargeUpdate(fault, SIMULATED) for name, fault in faults.items()},
        **{f"{name}-among-owners": Among(fault) for name, fault in others.items()},
    }
