"""Rendezvous: what a run is told, when it starts, of the gang that it is a member of, and of its peer.

Placements in, environment out. A member is a node of its own to its framework: it sees its own devices only,
so that its local rank is 0 also where another member is on the same host.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jobmgr.core.state.cache import CachedJob, is_reached
from peloton.model.cluster import mesos_hostname
from peloton.model.members import MEMBERS, PART
from peloton.model.workload import Framework

LISTED_BYTES = 8192
"""Up to this length the list of members is a variable."""
PART_BYTES = 100_000
"""Of a longer list, which a shell writes to a file, a variable has so much: Linux takes 128 KiB in one."""
NOBODY = "-"
"""Stands for a member that has no host now: it was stopped, or waits for its next run."""
Variables = dict[str, str]


@dataclass(frozen=True, slots=True)
class Member:
    """Where a task is reached."""

    host: str
    """Empty where it has none now."""
    node: str
    """The host's name in Peloton, which is not another one's."""
    port: int = 0
    """0: it has none."""
    role: str = ""

    def __str__(self) -> str:
        """Return the address: `host:port`, or the host alone of one without a port."""
        if not self.host:
            return NOBODY
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.port else host


@dataclass(frozen=True, slots=True)
class Meeting:
    """The members of a gang, by rank."""

    framework: Framework
    members: tuple[Member, ...]
    ranks: Mapping[int, int] = field(default_factory=dict)
    """By instance; those that are left out have their own number."""
    least: int = 0
    """Of a gang that grows in place: how many members it needs. 0: no member joins or leaves."""
    name: str = ""
    """Names a gang that grows in place."""

    def rank(self, instance: int) -> int:
        """Return the rank of an instance."""
        return self.ranks.get(instance, instance)


def meeting_of(job: CachedJob, version: int, address: str = "", run: int = 0) -> Meeting:
    """Return who meets in the gang of a version of a job. `address`: of all hosts, if not their names.

    Of an elastic gang these are the members of one round, whose runs have the number `run`.
    """
    spec = job.specs[version]
    if spec.workload.in_place:
        there = tuple(_member_on_host(job, rank, address) for rank in range(spec.rendezvous_size))
        return Meeting(spec.workload.framework, there, least=spec.gang_size, name=job.job_id)
    if not spec.workload.elastic:
        members = tuple(member_of(job, rank, address) for rank in range(spec.rendezvous_size))
        return Meeting(spec.workload.framework, members)
    round_ = [instance for instance, task in job.created() if task.run == run and task.host]
    members = tuple(member_of(job, instance, address) for instance in round_)
    return Meeting(spec.workload.framework, members, {each: rank for rank, each in enumerate(round_)})


def _member_on_host(job: CachedJob, instance: int, address: str) -> Member:
    """Return where an instance is reached; nowhere, once its run has ended."""
    task = job.task(instance)
    if task is None or not is_reached(task):
        return Member("", "", role=job.task_spec(instance).workload.role)
    return member_of(job, instance, address)


def member_of(job: CachedJob, instance: int, address: str = "") -> Member:
    """Return where an instance is reached."""
    task, spec = job.task(instance), job.task_spec(instance)
    if task is None or not task.host:
        return Member("", "", role=spec.workload.role)
    port = spec.rendezvous_port
    number = 0 if port is None else task.ports.get(port.name, port.value)
    return Member(address or mesos_hostname(task.host), task.host, number, spec.workload.role)


def meeting_variables(meeting: Meeting, rank: int) -> Variables:
    """Return the variables of a member: Peloton's, and those that its framework reads."""
    members = meeting.members
    me = members[rank]
    near = [other for other, member in enumerate(members) if member.node == me.node]
    variables = {
        "PELOTON_SIZE": str(len(members)),
        "PELOTON_RANK": str(rank),
        "PELOTON_LOCAL_SIZE": str(len(near)),
        "PELOTON_LOCAL_RANK": str(near.index(rank)),
        "PELOTON_RANK0_ADDRESS": str(members[0]),
        **_listed(members),
    }
    if meeting.least:
        return variables | _in_place(meeting, rank)
    own = _FRAMEWORKS.get(meeting.framework)
    return variables if own is None else variables | own(members, rank)


def peer_variables(peer: Member) -> Variables:
    """Return the variables that tell a task where its peer is."""
    return {
        "PELOTON_PEER_ADDRESS": str(peer),
        "PELOTON_PEER_HOST": peer.host,
        "PELOTON_PEER_PORT": str(peer.port),
    }


def _listed(members: Sequence[Member]) -> Variables:
    """Return the list as one variable, or as parts of it for the file, which are not left to the task."""
    whole = ",".join(map(str, members))
    if len(whole) <= LISTED_BYTES:
        return {MEMBERS: whole}
    return {f"{PART}{number}": part for number, part in enumerate(_parts(whole))}


def _parts(whole: str) -> Iterator[str]:
    for begin in range(0, len(whole), PART_BYTES):
        yield whole[begin : begin + PART_BYTES]


def _torch(members: Sequence[Member], rank: int) -> Variables:
    """Return what torch.distributed's `env://` reads, and torchrun as its options."""
    first, size = members[0], str(len(members))
    return {
        "MASTER_ADDR": first.host,
        "MASTER_PORT": str(first.port),
        "WORLD_SIZE": size,
        "RANK": str(rank),
        "NODE_RANK": str(rank),
        "GROUP_RANK": str(rank),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "PET_NNODES": size,
        "PET_NODE_RANK": str(rank),
        "PET_MASTER_ADDR": first.host,
        "PET_MASTER_PORT": str(first.port),
    }


def _in_place(meeting: Meeting, rank: int) -> Variables:
    """Return what members read that others join and leave: torchrun's options, or Ray's address.

    PyTorch's own variables of a fixed size are left to torchrun, which sets them for its workers each time.
    The first member, which the gang needs, holds the store by which they meet: torchrun alone would let
    whoever comes first do so among members whose hosts have one address.
    """
    first = meeting.members[0]
    if meeting.framework is Framework.RAY:
        return {"RAY_ADDRESS": str(first)}
    if meeting.framework is not Framework.TORCH:
        return {}
    return {
        "PET_NNODES": f"{meeting.least}:{len(meeting.members)}",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": str(first),
        "PET_RDZV_ID": meeting.name,
        "PET_RDZV_CONF": f"is_host={'false' if rank else 'true'}",
    }


def _tensorflow(members: Sequence[Member], rank: int) -> Variables:
    """Return TF_CONFIG: the addresses of all but evaluators by role, and the member's place among them."""
    roles: dict[str, list[int]] = {}
    for other, member in enumerate(members):
        roles.setdefault(member.role or "worker", []).append(other)
    cluster = {
        role: [str(members[other]) for other in ranks]
        for role, ranks in sorted(roles.items())
        if role != "evaluator"
    }
    mine = members[rank].role or "worker"
    task = {"type": mine, "index": roles[mine].index(rank)}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task}, separators=(",", ":"))}


def _jax(members: Sequence[Member], rank: int) -> Variables:
    """Return the arguments of jax.distributed.initialize."""
    return {
        "JAX_COORDINATOR_ADDRESS": str(members[0]),
        "JAX_NUM_PROCESSES": str(len(members)),
        "JAX_PROCESS_ID": str(rank),
    }


def _horovod(members: Sequence[Member], rank: int) -> Variables:
    """Return what Horovod's Gloo controller reads. The first member serves the rendezvous at its port."""
    first, size = members[0], str(len(members))
    return {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": first.host,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(first.port),
        "HOROVOD_HOSTNAME": members[rank].host,
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": size,
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "1",
        "HOROVOD_CROSS_RANK": str(rank),
        "HOROVOD_CROSS_SIZE": size,
    }


def _ray(members: Sequence[Member], rank: int) -> Variables:
    """Return the address of the head, which the first member is."""
    return {"RAY_ADDRESS": str(members[0])}


_FRAMEWORKS: Mapping[Framework, Callable[[Sequence[Member], int], Variables]] = {
    Framework.TORCH: _torch,
    Framework.TENSORFLOW: _tensorflow,
    Framework.JAX: _jax,
    Framework.HOROVOD: _horovod,
    Framework.RAY: _ray,
}
