"""The cluster as a whole: what `peloton status` and `peloton top` show, read by a few calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from peloton.cli.failures import CallFailed
from peloton.cli.pool_amounts import read_figures
from peloton.cli.session import Session
from peloton.client.rpcs import RPCS
from peloton.errors import PelotonError
from peloton.model.problems import NAMED, Problem, worst_first

if TYPE_CHECKING:
    from peloton.api.v0.host.host_pb2 import HostInfo
    from peloton.api.v0.job.job_pb2 import JobSummary, QuerySpec
    from peloton.api.v0.respool.respool_pb2 import ResourcePoolInfo
    from peloton.private.jobmgr.sharing.sharing_pb2 import ListOwnersResponse
    from peloton.private.problems.problems_pb2 import ListProblemsRequest, ListProblemsResponse
    from peloton.private.resmgr.monitoring.monitoring_pb2 import Pool

T = TypeVar("T")

KINDS = ("cpu", "memory", "disk", "gpu")
PAGE = 100
MOST_JOBS = 1000
"""Active jobs that are looked at; `Jobs.counts` counts all."""
RECENT = 5
"""Jobs that failed lately, which are named."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """Resources by kind: in use and in all."""

    used: Mapping[str, float]
    total: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs by state, the active ones, and the last that failed."""

    counts: Mapping[str, int]
    active: Sequence[JobSummary]
    failed: Sequence[JobSummary]
    looping: Sequence[JobSummary] = ()
    """Services whose instances fail again and again, the first of them."""
    looping_total: int = 0

    def tasks(self) -> Mapping[str, int]:
        """Return how many tasks the active jobs have in each state, most first."""
        found: Counter[str] = Counter()
        for job in self.active:
            found.update(job.runtime.taskStats)
        return {
            state: count
            for state, count in sorted(found.items(), key=lambda each: (-each[1], each[0]))
            if count
        }


@dataclass(slots=True)
class Daemon:
    """The leader of a role."""

    role: str
    address: str
    failure: str = ""

    def plain(self) -> dict[str, Any]:
        """Return it as data for programs."""
        return {
            "role": self.role,
            "address": self.address,
            "answers": not self.failure,
            "failure": self.failure,
        }


@dataclass(slots=True)
class Overview:
    """What could be read; `daemons` says what could not, and why."""

    daemons: list[Daemon] = field(default_factory=list)
    hosts: Mapping[str, int] | None = None
    away: Sequence[str] = ()
    """Hosts that are not UP, with their states."""
    capacity: Amounts | None = None
    pools: Sequence[ResourcePoolInfo] | None = None
    figures: Mapping[str, Pool] | None = None
    """What the resource manager knows of the pools, by their ids."""
    jobs: Jobs | None = None
    problems: Sequence[Problem] = ()
    """Of pools and waiting jobs, and what the daemons tell; the worst first."""
    owners: ListOwnersResponse | None = None
    """Who owns how many shards of jobs, where the job managers share the work."""


def read(session: Session) -> Overview:
    """Read the cluster; a daemon that does not answer is noted. Raises what is wrong with the command."""
    found = Overview()
    found.jobs = _from("jobmgr", session, found, lambda: read_jobs(session))
    found.owners = _read_owners(session) if found.jobs is not None else None
    found.pools = _from("resmgr", session, found, lambda: read_pools(session))
    hosts = _from("hostmgr", session, found, lambda: _read_hosts(session))
    if hosts is not None:
        found.hosts, found.away, found.capacity = hosts
    waiting = list[Problem]()
    if found.pools is not None:
        try:
            found.figures = read_figures(session)
            waiting = _waiting_problems(session, found.figures)
        except PelotonError as error:
            text = f"It is not known which pools and jobs lack something: {error}"
            waiting = [Problem("note", text)]
    found.problems = worst_first([*waiting, *_told(session, found)])
    return found


def _read_owners(session: Session) -> ListOwnersResponse | None:
    """Return who owns which jobs; None where one job manager leads and has all, or this cannot be read."""
    from peloton.private.jobmgr.sharing.sharing_pb2 import ListOwnersRequest

    try:
        found = session.call(RPCS.sharing_svc.ListOwners, ListOwnersRequest())
    except PelotonError:
        return None  # it is older than this program, or what is asked before has said why not
    return found if found.shared else None


def _told(session: Session, found: Overview) -> list[Problem]:
    """Return what the daemons that answer tell is wrong with what they do."""
    from peloton.present.problems import told_problems
    from peloton.private.problems.problems_pb2 import ListProblemsRequest, ListProblemsResponse

    answers, failures = list[ListProblemsResponse](), list[Problem]()
    for role in (daemon.role for daemon in found.daemons if not daemon.failure):
        try:
            answers += _listed(session, role, ListProblemsRequest())
        except PelotonError as error:
            if isinstance(error, CallFailed) and error.code == "UNIMPLEMENTED":
                continue  # it is older than this program
            failures.append(Problem("note", f"It is not known what is wrong with the {role}: {error}"))
    return [*told_problems(answers), *failures]


def _listed(session: Session, role: str, request: ListProblemsRequest) -> Sequence[ListProblemsResponse]:
    if role == "hostmgr":
        return session.call_clusters(RPCS.hostmgr_problem_svc.ListProblems, request)
    of_role = RPCS.jobmgr_problem_svc if role == "jobmgr" else RPCS.resmgr_problem_svc
    return [session.call(of_role.ListProblems, request)]


def _waiting_problems(session: Session, figures: Mapping[str, Pool]) -> list[Problem]:
    """Return what the resource manager knows of pools and jobs that cannot get what they wait for."""
    from peloton.cli.job_names import job_names
    from peloton.present.problems import (
        capacity_problems,
        infeasible_jobs,
        named_jobs,
        oversized_jobs,
        short_pools,
    )
    from peloton.private.resmgr.monitoring import monitoring_pb2

    cluster = session.call(RPCS.monitoring_svc.GetCluster, monitoring_pb2.GetClusterRequest())
    names = job_names(session, named_jobs(cluster))
    return [
        *capacity_problems(cluster, len(figures)),
        *short_pools(figures.values()),
        *infeasible_jobs(cluster, names),
        *oversized_jobs(cluster, names),
    ]


def _from(role: str, session: Session, found: Overview, call: Callable[[], T]) -> T | None:
    """Make a call to a daemon; note whether it answers."""
    answer, failure, address = None, "", "?"
    try:
        address = session.client.address(role)
        answer = call()
    except PelotonError as error:
        failure = "; ".join([str(error), *_said(session, role)])
    found.daemons.append(Daemon(role, address, failure))
    return answer


def _said(session: Session, role: str) -> list[str]:
    """Return what the processes of a role say is wrong with them, as why none of them gets to lead."""
    try:
        return session.client.ailing(role)
    except PelotonError:
        return []


def read_jobs(session: Session) -> Jobs:
    """Return the jobs. Raises CallFailed."""
    from peloton.api.v0.job import job_pb2

    counts: dict[str, int] = {}
    active: list[JobSummary] = []
    for state in (job_pb2.RUNNING, job_pb2.PENDING, job_pb2.INITIALIZED):
        jobs, counts[job_pb2.JobState.Name(state)] = _of_state(session, state, MOST_JOBS - len(active))
        active += jobs
    failed, counts["FAILED"] = _of_state(session, job_pb2.FAILED, RECENT)
    for state in (job_pb2.SUCCEEDED, job_pb2.KILLED):
        _, counts[job_pb2.JobState.Name(state)] = _of_state(session, state, 1)
    looping, total = _that_are(session, NAMED, job_pb2.QuerySpec(crashLooping=True))
    return Jobs(counts, active, failed, looping, total)


def _of_state(session: Session, state: int, most: int) -> tuple[list[JobSummary], int]:
    """Return the newest jobs in a state, and how many are in it."""
    from peloton.api.v0.job import job_pb2

    return _that_are(session, most, job_pb2.QuerySpec(jobStates=[job_pb2.JobState.ValueType(state)]))


def _that_are(session: Session, most: int, spec: QuerySpec) -> tuple[list[JobSummary], int]:
    """Return the newest jobs of a query, and how many there are."""
    from peloton.api.v0.job import job_pb2
    from peloton.api.v0.query import query_pb2

    found: list[JobSummary] = []
    while True:
        page = query_pb2.PaginationSpec(offset=len(found), limit=min(PAGE, max(1, most - len(found))))
        spec.pagination.CopyFrom(page)
        answer = session.call(RPCS.job_svc.Query, job_pb2.QueryRequest(spec=spec, summaryOnly=True))
        found += answer.results
        if not answer.results or len(found) >= min(most, answer.pagination.total):
            return found[: max(0, most)], answer.pagination.total


def read_pools(session: Session) -> Sequence[ResourcePoolInfo]:
    """Return the pools, parents before their children. Raises CallFailed."""
    from peloton.api.v0.respool import respool_pb2

    pools = session.call(RPCS.respool_svc.Query, respool_pb2.QueryRequest()).resourcePools
    return sorted(pools, key=lambda pool: pool.path.value)


def _read_hosts(session: Session) -> tuple[Mapping[str, int], list[str], Amounts]:
    from peloton.api.v0.host.svc import host_svc_pb2
    from peloton.cli.host_states import state_of
    from peloton.private.hostmgr.hostsvc import hostsvc_pb2

    request = host_svc_pb2.QueryHostsRequest(include_lost=True)
    hosts = [
        info
        for answer in session.call_clusters(RPCS.host_svc.QueryHosts, request)
        for info in answer.host_infos
    ]
    used: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for answer in session.call_clusters(
        RPCS.hostmgr_svc.ClusterCapacity, hostsvc_pb2.ClusterCapacityRequest()
    ):
        used.update({each.kind: each.capacity for each in answer.resources})
        total.update({each.kind: each.capacity for each in answer.physicalResources})
    away = sorted(_away(info) for info in hosts if state_of(info) != "UP")
    return Counter(map(state_of, hosts)), away, Amounts(used, total)


def _away(info: HostInfo) -> str:
    """Return the name and the state of a host, with since when it is lost."""
    from peloton.cli.host_states import lost_text, state_of

    lost = f" {lost_text(info.lost)}" if info.HasField("lost") else ""
    return f"{info.hostname} {state_of(info)}{lost}"


@dataclass(frozen=True, slots=True)
class HostUse:
    """What of a host is in use."""

    name: str
    status: str
    amounts: Amounts


def read_hosts(session: Session) -> Iterator[HostUse]:
    """Yield the hosts, lost ones at the end. Raises CallFailed."""
    from peloton.api.v0.host import host_pb2
    from peloton.api.v0.host.svc import host_svc_pb2
    from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2

    request = hostmgr_svc_pb2.GetHostCacheRequest()
    for answer in session.call_clusters(RPCS.hostmgr_v1alpha_svc.GetHostCache, request):
        for host in answer.summaries:
            used = {each.kind: each.capacity for each in host.allocation}
            total = {each.kind: each.capacity for each in host.capacity}
            yield HostUse(host.hostname, host.status, Amounts(used, total))
    lost = host_svc_pb2.QueryHostsRequest(host_states=[host_pb2.HOST_STATE_INVALID], include_lost=True)
    for found in session.call_clusters(RPCS.host_svc.QueryHosts, lost):
        for info in found.host_infos:
            if info.HasField("lost"):
                yield HostUse(info.hostname, "LOST", Amounts({}, {}))
