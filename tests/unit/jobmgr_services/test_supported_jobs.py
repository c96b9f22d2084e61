"""Pools and ids of jobs, and constraints."""

from __future__ import annotations

import pytest

from peloton.errors import InvalidArgument
from peloton.wire.validation.job import (
    check_job_id,
    check_pool,
    validated,
)
from tests.unit.jobmgr_services.configs import PARENT, POOL, POOLS, job


@pytest.mark.parametrize(
    ("pool", "part"),
    [
        ("", "every job names one"),
        ("root", "the root takes no jobs"),
        (PARENT, "it has the child 'batch'"),
        ("b3f1c2de-0000-4000-8000-00000000000f", "exists"),
    ],
)
def test_refuses_pool(pool: str, part: str) -> None:
    with pytest.raises(InvalidArgument, match="respoolID") as refusal:
        check_pool(pool, POOLS)
    assert part in str(refusal.value)


def test_accepts_leaf() -> None:
    check_pool(POOL, POOLS)


@pytest.mark.parametrize("job_id", ["", "abc", "b3f1c2de00004000800000000000000f", POOL + "0"])
def test_refuses_job_id(job_id: str) -> None:
    with pytest.raises(InvalidArgument, match="UUID"):
        check_job_id(job_id)


@pytest.mark.parametrize(
    "text",
    [
        "defaultConfig { constraint { type: AND_CONSTRAINT } }",
        "instanceConfig { key: 1 value { constraint { type: LABEL_CONSTRAINT labelConstraint { "
        "kind: HOST condition: CONDITION_EQUAL requirement: 1 } } } }",
        "defaultConfig { constraint { type: LABEL_CONSTRAINT labelConstraint { kind: TASK "
        "condition: CONDITION_LESS_THAN requirement: 1 } } }",
        "instanceConfig { key: 2 value { constraint { type: OR_CONSTRAINT orConstraint { constraints { "
        "type: AND_CONSTRAINT andConstraint { constraints { type: LABEL_CONSTRAINT labelConstraint { "
        "kind: TASK condition: CONDITION_EQUAL } } } } } } } }",
    ],
)
def test_constraints_on_hosts_and_on_tasks_are_taken(text: str) -> None:
    config = job(text)
    assert validated(config) == config
