"""Pools and ids of jobs, and what is not supported yet: refused with path, value and what would be right."""

from __future__ import annotations

import pytest

from jobmgr.validation.job import (
    check_job_id,
    check_pool,
    check_supported,
    validated,
)
from peloton.errors import InvalidArgument
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
    ("text", "path"),
    [
        (
            "defaultConfig { constraint { type: LABEL_CONSTRAINT labelConstraint { kind: TASK "
            "condition: CONDITION_LESS_THAN requirement: 1 } } }",
            "defaultConfig.constraint.labelConstraint.kind",
        ),
        (
            "instanceConfig { key: 2 value { constraint { type: OR_CONSTRAINT orConstraint { constraints { "
            "type: AND_CONSTRAINT andConstraint { constraints { type: LABEL_CONSTRAINT labelConstraint { "
            "kind: TASK condition: CONDITION_EQUAL } } } } } } } }",
            "instanceConfig[2].constraint.orConstraint.constraints[0].andConstraint.constraints[0]"
            ".labelConstraint.kind",
        ),
    ],
)
def test_refuses_unsupported_jobs(text: str, path: str) -> None:
    config = validated(job(text))
    with pytest.raises(InvalidArgument) as refusal:
        check_supported(config)
    assert refusal.value.field == path


def test_an_and_without_terms_and_constraints_on_hosts_are_supported() -> None:
    check_supported(
        validated(
            job(
                "defaultConfig { constraint { type: AND_CONSTRAINT } } "
                "instanceConfig { key: 1 value { constraint { type: LABEL_CONSTRAINT labelConstraint { "
                "kind: HOST condition: CONDITION_EQUAL requirement: 1 } } } }"
            )
        )
    )


def test_batch_is_supported() -> None:
    check_supported(validated(job()))
