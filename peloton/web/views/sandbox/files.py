"""The files of a run: its sandbox folder by folder, and whole files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.calls.web import GET_JOB, GET_TASK
from peloton.errors import InvalidArgument, Refused
from peloton.web import sandbox
from peloton.web.cluster import Calls
from peloton.web.pages import Page, Subject
from peloton.web.requests import calls
from peloton.web.sandbox import inner_path, known_instance
from peloton.web.views.instances.rows import Run, instance_of
from peloton.web.views.sandbox.log_search import run_number

BASE = "/jobs/{job_id}/instances/{instance:int}"
"""The path of an instance."""
POLL_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Owner:
    """The instance whose files are shown."""

    job_id: str
    job_name: str
    number: int
    url: str
    runs: Sequence[Run]

    def run(self, number: str) -> Run | None:
        """Return a run, the last launched one for an empty number."""
        if number:
            return next((run for run in self.runs if run.number == number), None)
        return next((run for run in self.runs if run.launched), None)


async def read_owner(client: Calls, job_id: str, number: int, age: float | None = None) -> Owner:
    """Read the instance whose files are shown; what is so old in seconds will do. Raises PelotonError."""
    job, number = peloton_pb2.JobID(value=job_id), known_instance(number)
    answer, about = await asyncio.gather(
        client.read(GET_TASK, task_pb2.GetRequest(jobId=job, instanceId=number), age),
        client.read(GET_JOB, job_pb2.GetRequest(id=job), age),
    )
    instance = instance_of(job_id, answer)
    return Owner(job_id, about.jobInfo.config.name or "(no name)", number, instance.url, instance.runs)


async def find_run(client: Calls, owner: Owner, number: str) -> sandbox.Sandbox:
    """Return the sandbox of a run; of the last launched one for an empty number, whatever waits after it.

    Raises Refused where there is none.
    """
    run = owner.run(number)
    return await sandbox.find(client, owner.job_id, owner.number, run.number if run is not None else number)


async def load_files(subject: Subject) -> Mapping[str, Any]:
    """Return a folder of the sandbox of a run."""
    job_id, number = subject.path["job_id"], subject.path["instance"]
    run, path = run_number(subject.query.get("run", "")), inner_path(subject.query.get("path", ""))
    owner = await read_owner(subject.calls, job_id, number)
    folder = sandbox.Folder(())
    problem = ""
    try:
        found = await find_run(subject.calls, owner, run)
        folder = await found.browse(path)
    except Refused as error:
        problem = str(error)
    names = path.split("/") if path else []
    crumbs = [(name, "/".join(names[: at + 1])) for at, name in enumerate(names)]
    return {
        "task": owner,
        "run": run,
        "path": path,
        "crumbs": crumbs,
        "entries": folder.entries,
        "left_out": folder.left_out,
        "shown": owner.run(run),
        "problem": problem,
        "whole": len(folder.entries) < sandbox.MOST_ENTRIES,
    }


async def download(request: Request) -> Response:
    """Answer with a whole file."""
    run = run_number(request.query_params.get("run", ""))
    path = inner_path(request.query_params.get("path", ""))
    if not path:
        raise InvalidArgument("path", path, "the path of a file in the sandbox, such as stdout")
    client = calls(request)
    owner = await read_owner(client, request.path_params["job_id"], request.path_params["instance"])
    found = await find_run(client, owner, run)
    pieces = found.download(path)
    try:
        # What is wrong shows before anything is answered.
        first = await anext(pieces)
    except StopAsyncIteration:
        first = b""
    name = quote(path.rpartition("/")[2], safe="")
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{name}", "cache-control": "no-store"}
    return StreamingResponse(_joined(first, pieces), media_type="application/octet-stream", headers=headers)


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


PAGES = (
    Page(f"{BASE}/files", "files.html", load_files, live=("folder",), nav="Jobs", poll_seconds=POLL_SECONDS),
)
ROUTES = (Route(f"{BASE}/download", download),)
