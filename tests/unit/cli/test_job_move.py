"""`peloton job move`: what is asked and printed."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.cli.queries import PAGE
from peloton.private.jobmgr.moving import moving_pb2 as pb

from .conftest import Run
from .fakes import FakeDaemons

JOB = "91b1ee88-43fc-4a51-8cb4-d1e1b7e4b5a0"


def answer(version: str = "", **fields: Any) -> pb.MoveJobResponse:
    made = pb.MoveJobResponse(changed=True, **fields)
    if version:
        made.version.value = version
    return made


def summary(at: int) -> job_pb2.JobSummary:
    job_id = f"{JOB[:-4]}{at:04}"
    return job_pb2.JobSummary(id=peloton_pb2.JobID(value=job_id), name=f"job-{at}", instanceCount=1)


@pytest.mark.parametrize(
    ("flags", "answered", "printed"),
    [
        (
            ("--to", "east"),
            answer(begun_anew=40, staying=1),
            "goes to cluster east by its next runs: 40 waiting runs begin anew, 1 run goes on to the end",
        ),
        (("--to-unnamed",), answer(), "goes to the cluster without a name by its next runs"),
        (
            ("--anywhere",),
            answer("2-1-2", batch_size=3),
            "may go to any cluster, 3 instances at a time, entity version 2-1-2",
        ),
        (
            ("--to", "east", "--batch-size", "0"),
            answer("2-1-2"),
            "goes to cluster east, all instances at a time, entity version 2-1-2",
        ),
        (("--to", "east"), pb.MoveJobResponse(), "is kept there already"),
        (("--anywhere",), pb.MoveJobResponse(), "may go anywhere"),
    ],
)
def test_what_becomes_of_a_job_is_told(
    run: Run, daemons: FakeDaemons, flags: tuple[str, ...], answered: pb.MoveJobResponse, printed: str
) -> None:
    daemons.answers["MoveJob"] = answered
    assert run("job", "move", JOB, *flags).out == f"Job {JOB} {printed}\n"
    [asked] = daemons.requests("MoveJob")
    assert asked.job_id.value == JOB
    assert asked.WhichOneof("to") == {"--to": "cluster", "--to-unnamed": "unnamed"}.get(flags[0], "anywhere")
    assert asked.HasField("batch_size") == ("--batch-size" in flags)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((JOB,), "give one of --to CLUSTER, --to-unnamed and --anywhere"),
        ((JOB, "--to", "east", "--anywhere"), "give one of"),
        ((JOB, "--to", ""), "--to-unnamed is for the one without a name"),
        (("--to", "east"), "give either a job or --pool"),
        ((JOB, "--pool", "/a", "--to", "east"), "give either a job or --pool"),
        (("--pool", "/a", "--to", "east", "--follow"), "--follow is for one job"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    run: Run, daemons: FakeDaemons, arguments: tuple[str, ...], told: str
) -> None:
    printed = run("job", "move", *arguments)
    assert printed.code == 2 and told in printed.err
    assert not daemons.requests("MoveJob")


def test_all_jobs_of_a_pool_are_moved_and_refusals_are_told(run: Run, daemons: FakeDaemons) -> None:
    pages = [job_pb2.QueryResponse(results=map(summary, range(PAGE)))]
    pages.append(job_pb2.QueryResponse(results=[summary(PAGE)]))
    daemons.answers["Query"] = pages
    refused = (grpc.StatusCode.FAILED_PRECONDITION, "job job-0 has volumes")
    daemons.answers["MoveJob"] = [refused, answer(begun_anew=1)]
    printed = run("job", "move", "--pool", "/a", "--to", "east", "-f")
    assert printed.code != 0
    assert printed.err.count("has volumes") == 1
    assert len(printed.out.splitlines()) == PAGE
    assert "goes to cluster east by its next runs: 1 waiting run begins anew" in printed.out
    offsets = [asked.spec.pagination.offset for asked in daemons.requests("Query")]
    assert offsets == [0, PAGE]
    assert daemons.requests("Query")[0].spec.respool.value == "/a"


def test_a_pool_without_jobs(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["Query"] = job_pb2.QueryResponse()
    assert run("job", "move", "--pool", "/a", "--to", "east").out == "No job of /a has not ended\n"
