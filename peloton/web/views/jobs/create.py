"""New jobs: from a small form or YAML, with the plan shown before one is created."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.calls.web import CREATE_JOB, CREATE_JOB_V1ALPHA, GET_JOB, PLAN_JOB, QUERY_JOBS
from peloton.errors import AlreadyExists, InvalidArgument, NotFound, PelotonError, Refused, Unauthenticated
from peloton.model.ids import is_uuid
from peloton.model.states import TERMINAL_JOB_STATES, JobState
from peloton.present.plans import plan_lines
from peloton.private.plan import plan_pb2
from peloton.web.cluster import Calls
from peloton.web.naming import named
from peloton.web.permissions import refusals
from peloton.web.requests import calls, done, field, render
from peloton.web.views.jobs.drafts import KINDS, Draft, Read, Spec, leaves, read_draft
from peloton.web.views.jobs.names import job_names
from peloton.web.views.jobs.pages import CREATE_METHODS, creation_denied, pools_of

PATH = "/submit"
PLAN_SECONDS = 40.0
"""How long a plan may take: placement engines are asked where the instances would go."""
LONGEST_TEXT_CHARACTERS = 512 * 1024
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
EXAMPLE = """\
name: hello
type: BATCH
instanceCount: 2
sla: {preemptible: true}
defaultConfig:
  resource: {cpuLimit: 0.5, memLimitMb: 64, diskLimitMb: 10}
  command: {shell: true, value: echo hello}
"""


@dataclass(frozen=True, slots=True)
class PlanLine:
    """A line of a plan: its depth, and its texts, each with the address that it leads to, or none."""

    depth: int
    parts: Sequence[tuple[str, str]]


async def show(request: Request) -> Response:
    """Answer with the empty forms."""
    return await _forms(request, EXAMPLE, Draft(), request.query_params.get("pool", ""))


async def submit(request: Request) -> Response:
    """Show what a spec would do, or create the job of one that was shown."""
    step, pool = field(request, "step"), field(request, "pool", "")
    draft = Draft.of(lambda name: field(request, name, ""))
    text = field(request, "spec", "").replace("\r\n", "\n")
    if step == "draft":
        try:
            text = draft.text()
        except InvalidArgument as error:
            return await _forms(request, EXAMPLE, draft, pool, [str(error)], drafted=True)
    if step == "edit":
        return await _forms(request, text, Draft(), pool)
    if len(text) > LONGEST_TEXT_CHARACTERS:
        raise InvalidArgument("spec", f"{len(text):,} characters", f"at most {LONGEST_TEXT_CHARACTERS:,}")
    read = read_draft(text, pool)
    if read.spec is None:
        again = draft if step == "draft" else Draft()
        return await _forms(request, text, again, pool, read.errors, drafted=step == "draft")
    if step == "create":
        return await _create(request, text, pool, read)
    return await _plan(request, text, pool, read, str(uuid4()))


async def _forms(
    request: Request,
    text: str,
    draft: Draft,
    pool: str,
    errors: Sequence[str] = (),
    drafted: bool = False,
) -> Response:
    """Answer with the forms, and with what is wrong with what was sent."""
    client = calls(request)
    denied = await refusals(client, CREATE_METHODS)
    variables: dict[str, Any] = {
        "text": text,
        "draft": draft,
        "drafted": drafted,
        "kinds_of_jobs": KINDS,
        "pools": leaves(await pools_of(client)),
        "chosen": pool,
        "errors": errors,
        "denied": creation_denied(denied),
    }
    return render(request, "job_new.html", variables, 400 if errors else 200)


async def _plan(
    request: Request, text: str, pool: str, read: Read, job_id: str, problem: str = "", status: int = 200
) -> Response:
    """Answer with what would become of the job now."""
    client, spec = calls(request), read.spec
    assert spec is not None
    paths = leaves(await pools_of(client))
    path = paths.get(read.pool_id, read.pool_id)
    try:
        plan = await client.call(PLAN_JOB, _plan_request(spec), PLAN_SECONDS)
    except Unauthenticated:
        raise
    except PelotonError as error:
        return await _forms(request, text, Draft(), pool, [str(error)])
    denied = await refusals(client, CREATE_METHODS, path)
    variables: dict[str, Any] = {
        "text": text,
        "chosen": pool,
        "pool": path,
        "pool_id": read.pool_id,
        "name": spec.name or "(no name)",
        "service": read.service,
        "lines": await _linked(client, list(plan_lines(plan))[1:]),  # the first: nothing is created
        "waits": any(group.plan.refused_gangs for group in plan.groups),
        "warnings": read.warnings,
        "running": await _of_name(client, spec, read.pool_id),
        "job_id": job_id,
        "denied": denied.get("service" if read.service else "job", ""),
        "problem": problem,
    }
    return render(request, "job_plan.html", variables, status)


def _plan_request(spec: Spec) -> plan_pb2.PlanJobRequest:
    if isinstance(spec, stateless_pb2.JobSpec):
        return plan_pb2.PlanJobRequest(spec=spec)
    return plan_pb2.PlanJobRequest(config=spec)


async def _linked(client: Calls, lines: Sequence[str]) -> list[PlanLine]:
    """Return the lines of a plan with links to the jobs that they name."""
    found = await job_names(client, {job_id for line in lines for job_id in _ID.findall(line)})
    names = {job_id: name or f"job {job_id}" for job_id, name in found.items()}
    return [_line(line, names) for line in lines]


def _line(text: str, names: Mapping[str, str]) -> PlanLine:
    bare = text.lstrip(" ")
    return PlanLine((len(text) - len(bare)) // 2, named(bare, names))


async def _of_name(client: Calls, spec: Spec, pool_id: str) -> Sequence[tuple[str, str]]:
    """Return the jobs of this name in the pool that have not ended: name of their kind, and address."""
    if not spec.name:
        return ()
    page = query_pb2.PaginationSpec(limit=20)
    request = job_pb2.QueryRequest(
        spec=job_pb2.QuerySpec(reference=spec.name, pagination=page), summaryOnly=True
    )
    try:
        found = (await client.read(QUERY_JOBS, request)).results
    except PelotonError:
        return ()
    return [
        (job_pb2.JobType.Name(job.type).lower(), f"/jobs/{job.id.value}")
        for job in found
        if job.name == spec.name
        and job.respoolID.value == pool_id
        and JobState(job.runtime.state) not in TERMINAL_JOB_STATES
    ]


async def _create(request: Request, text: str, pool: str, read: Read) -> Response:
    """Create the job under the id that the plan was shown with: sent twice, it is created once."""
    client, job_id = calls(request), field(request, "job_id")
    if not is_uuid(job_id):
        raise InvalidArgument("job_id", job_id, "the id that the plan was shown with: send it from its page")
    assert read.spec is not None
    try:
        warnings = await _created(client, read.spec, job_id)
    except (Refused, AlreadyExists, InvalidArgument) as error:
        if await _exists(client, job_id):
            return done(request, f"/jobs/{job_id}")
        said = f"nothing was created: {error}"
        return await _plan(request, text, pool, read, job_id, said, 409)
    to_job = done(request, f"/jobs/{job_id}")
    if not warnings:
        return to_job
    variables = {"url": f"/jobs/{job_id}", "name": read.spec.name or "(no name)", "warnings": warnings}
    return render(request, "job_created.html", variables)


async def _created(client: Calls, spec: Spec, job_id: str) -> Sequence[str]:
    """Create a job and return the warnings about its spec."""
    if isinstance(spec, stateless_pb2.JobSpec):
        request = pb.CreateJobRequest(job_id=peloton_pb2.JobID(value=job_id), spec=spec)
        return (await client.call(CREATE_JOB_V1ALPHA, request)).warnings
    config = job_pb2.CreateRequest(id=v0_peloton.JobID(value=job_id), config=spec)
    return (await client.call(CREATE_JOB, config)).warnings


async def _exists(client: Calls, job_id: str) -> bool:
    try:
        await client.call(GET_JOB, job_pb2.GetRequest(id=v0_peloton.JobID(value=job_id)))
    except (NotFound, Refused):
        return False
    return True


ROUTES = (
    Route(PATH, show, methods=["GET"]),
    Route(PATH, submit, methods=["POST"]),
)
