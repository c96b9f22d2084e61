"""The deepest constraint that a user may have passes all daemons, with what they add around it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from hostmgr.services.internal import filter_from
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument
from peloton.model.constraint import AndConstraint, Condition, Constraint, Kind, LabelConstraint, mentions
from peloton.model.host_pool import HOST_POOL
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.resmgr import resmgr_pb2
from peloton.wire.constraint import MAX_DEPTH, constraint_from, constraint_to
from peloton.wire.job import job_spec
from peloton.wire.resmgr import resmgr_task
from placement.core.instructions import Claim
from placement.core.model import HostClass, Needs
from placement.wire import acquire_request
from resmgr.wire.tasks import Translator, planned_task

POOL = "00000000-0000-0000-0000-000000000001"


def nested(levels: int) -> task_pb2.Constraint:
    found: Constraint = LabelConstraint(Kind.HOST, Condition.EQUAL, ("rack", "r1"), 1)
    for _ in range(levels):
        found = AndConstraint((found,))
    return constraint_to(found)


def test_a_constraint_that_is_deeper_is_refused() -> None:
    constraint_from(nested(MAX_DEPTH))
    with pytest.raises(InvalidArgument, match="33 is not a constraint nested at most 32 deep"):
        constraint_from(nested(MAX_DEPTH + 1))


def test_what_daemons_add_is_not_counted() -> None:
    """Fixed ports are added by jobmgr, the host pool by resmgr, the names of hosts by placement."""
    config = job_pb2.JobConfig(instanceCount=1, respoolID=peloton_pb2.ResourcePoolID(value=POOL))
    config.defaultConfig.constraint.CopyFrom(nested(MAX_DEPTH))
    config.defaultConfig.ports.add(name="http", value=8080, envName="PORT")
    spec = job_spec(config, 1)
    runtime = TaskRuntime(TaskState.INITIALIZED, TaskState.SUCCEEDED, 1, 1, 1, 1)
    task = resmgr_task(POOL, spec, 0, runtime)
    translator, scheduler = Translator(), cast(Any, SimpleNamespace(confines=lambda kind: True))
    sent = planned_task(task, translator.needs(task), scheduler)
    received = resmgr_pb2.Task.FromString(sent.SerializeToString())
    host_class = HostClass(received.constraint.SerializeToString())
    needs = Needs(translator.needs(task).resources, host_class=host_class)
    asked = acquire_request(Claim(needs, 1, {"h1": ["t"]}))
    wanted = hostsvc_pb2.AcquireHostOffersRequest.FromString(asked.SerializeToString())
    found = filter_from(wanted.filter).constraint
    depth, inner = 0, found
    while isinstance(inner, AndConstraint):
        depth, inner = depth + 1, inner.parts[-1]
    assert depth == MAX_DEPTH + 3
    assert mentions(found, Kind.HOST, HOST_POOL)
