"""The jobs of benchmarks/scaling.py: how many instances each has, which hosts will do, and who owns it."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mesos.v1 import mesos_pb2
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.client import PelotonClient
from peloton.errors import PelotonError
from peloton.model.host_class import EXCLUSIVE
from peloton.model.ids import JobId
from peloton.model.shard import shard_of
from peloton.private.jobmgr.sharing import sharing_pb2

JOB_SIZE = 100_000
CREATE_SECONDS = 300
RESOURCE = task_pb2.ResourceConfig(cpuLimit=0.5, memLimitMb=1024, diskLimitMb=64)
RACKS = 11
RACKS_OF_A_JOB = 4
EXCLUSIVE_EVERY = 10
OWNER = "gold"
"""To whom the exclusive hosts belong."""
ATTRIBUTES = ";".join(
    (
        "rack:" + "|".join(f"r{i}" for i in range(RACKS)),
        f"{EXCLUSIVE}:{OWNER}" + "|" * (EXCLUSIVE_EVERY - 1),
    )
)
"""Of the hosts, where jobs have constraints: their rack, and each tenth one is exclusive."""
MIX = {"any": 0.5, "racks": 0.2, "spread": 0.15, "gpu": 0.1, "exclusive": 0.05}
"""The part of the tasks that has each kind of constraint."""

_HOST = task_pb2.LabelConstraint.HOST
_TASK = task_pb2.LabelConstraint.TASK
_LESS = task_pb2.LabelConstraint.CONDITION_LESS_THAN
_MORE = task_pb2.LabelConstraint.CONDITION_GREATER_THAN


@dataclass(frozen=True, slots=True)
class Part:
    """A job that is to be created."""

    kind: str
    """One of `MIX`."""
    instances: int


def parts(count: int, mixed: bool) -> Iterator[Part]:
    """Yield the jobs that have this number of instances together."""
    for kind, number in (shares(count) if mixed else {"any": count}).items():
        for begun in range(0, number, JOB_SIZE):
            yield Part(kind, min(JOB_SIZE, number - begun))


def shares(count: int) -> dict[str, int]:
    """Return how many of the tasks have each kind of constraint; what is left over has none."""
    found = {kind: int(count * share) for kind, share in MIX.items()}
    found["any"] += count - sum(found.values())
    return found


class Creator:
    """Creates jobs with ids of its own, owned by the job managers in turn."""

    def __init__(self, client: PelotonClient, hosts: int) -> None:
        """`hosts`: in all clusters."""
        self._client = client
        self._hosts = hosts
        self._random = random.Random(0)
        self._owners = owned_shards(client)
        self._created = 0

    def create(self, pool: str, part: Part) -> None:
        """Create a job. Raises PelotonError."""
        job_id = self._next_id()
        request = job_pb2.CreateRequest(
            id=peloton_pb2.JobID(value=job_id), config=job_of(part, pool, self._created, self._hosts)
        )
        metadata = self._client.jobmgr_metadata
        answer = self._client.job_svc.Create(request, metadata=metadata, timeout=CREATE_SECONDS)
        if answer.HasField("error"):
            raise PelotonError(f"cannot create the job: {answer.error}")
        self._created += 1

    def _next_id(self) -> str:
        shards = self._owners[self._created % len(self._owners)]
        while True:
            found = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
            if shard_of(JobId(found)) in shards:
                return found


def owned_shards(client: PelotonClient) -> list[frozenset[int]]:
    """Return the shards of each job manager that owns some."""
    answer = client.sharing_svc.ListOwners(sharing_pb2.ListOwnersRequest(), timeout=30)
    return [numbers_of(each.shards) for each in answer.owners if each.count]


def numbers_of(text: str) -> frozenset[int]:
    """Return the numbers of a text such as 0-20,63."""
    ends: Iterable[Sequence[str]] = (each.split("-") for each in text.split(","))
    return frozenset(number for each in ends for number in range(int(each[0]), int(each[-1]) + 1))


def job_of(part: Part, pool: str, number: int, hosts: int) -> job_pb2.JobConfig:
    """Return the config of a job. `number`: of the job; `hosts`: in all clusters."""
    task = task_pb2.TaskConfig(resource=RESOURCE, command=mesos_pb2.CommandInfo(shell=True, value="sleep 1d"))
    constrain(task, part, number, hosts)
    return job_pb2.JobConfig(
        name=f"bench-{part.kind}",
        type=job_pb2.BATCH,
        owningTeam="bench",
        instanceCount=part.instances,
        respoolID=peloton_pb2.ResourcePoolID(value=pool),
        sla=job_pb2.SlaConfig(preemptible=True),
        defaultConfig=task,
    )


def constrain(task: task_pb2.TaskConfig, part: Part, number: int, hosts: int) -> None:
    """Say which hosts will do for the tasks of a job."""
    if part.kind == "gpu":
        task.resource.gpuLimit = 1
    elif part.kind == "exclusive":
        task.constraint.CopyFrom(count_of(_HOST, EXCLUSIVE, OWNER, _MORE, 0))
    elif part.kind == "racks":
        task.constraint.type = task_pb2.Constraint.OR_CONSTRAINT
        task.constraint.orConstraint.constraints.extend(
            count_of(_HOST, "rack", f"r{(number + i) % RACKS}", _MORE, 0) for i in range(RACKS_OF_A_JOB)
        )
    elif part.kind == "spread":
        name = f"bench-{number}"
        task.labels.add(key="app", value=name)
        task.constraint.CopyFrom(count_of(_TASK, "app", name, _LESS, 1 + 2 * part.instances // hosts))


def count_of(
    kind: task_pb2.LabelConstraint.Kind.ValueType,
    key: str,
    value: str,
    condition: task_pb2.LabelConstraint.Condition.ValueType,
    requirement: int,
) -> task_pb2.Constraint:
    """Return a condition on how often a label occurs."""
    return task_pb2.Constraint(
        type=task_pb2.Constraint.LABEL_CONSTRAINT,
        labelConstraint=task_pb2.LabelConstraint(
            kind=kind,
            condition=condition,
            label=peloton_pb2.Label(key=key, value=value),
            requirement=requirement,
        ),
    )
