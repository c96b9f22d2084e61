"""Sessions beside tasks: they begin and end at the job manager, and go on while their user may."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from peloton.api.v1alpha import peloton_pb2
from peloton.calls.web import CHECK_METHODS, END_SESSION, START_SESSION
from peloton.client.agent_calls import Nested, container_of
from peloton.errors import PelotonError, Unauthenticated
from peloton.private.access import access_pb2
from peloton.private.jobmgr.exec import exec_pb2 as pb
from peloton.web.agent_terminal import AgentTerminal
from peloton.web.cluster import Calls

log = logging.getLogger(__name__)
CHECK_SECONDS = 20.0
"""Time between two looks whether a user may go on."""


@asynccontextmanager
async def begun(client: Calls, job_id: str, instance: int) -> AsyncGenerator[AgentTerminal]:
    """Begin a session, and end it. Raises PelotonError where the user may not, or nothing runs there."""
    job = peloton_pb2.JobID(value=job_id)
    place = await client.call(START_SESSION, pb.StartSessionRequest(job_id=job, instance=instance))
    task = f"{job_id}-{instance}"
    log.info("session %s in %s of %s begins", place.session, task, client.user or "nobody in particular")
    try:
        cluster = client.cluster
        nested = Nested(place.session, container_of(place.paths))
        yield AgentTerminal(
            place.hostname, int(place.port or 5051), nested, cluster.call_seconds, cluster.agents
        )
    finally:
        end = pb.EndSessionRequest(job_id=job, instance=instance, session=place.session)
        try:
            await client.call(END_SESSION, end)
        except PelotonError as error:
            log.warning("the job manager was not told that session %s is over: %s", place.session, error)
        log.info("session %s in %s is over", place.session, task)


async def may_not_go_on(client: Calls, pool: str) -> str:
    """Return why a session is to end: its user may not run commands any more. Empty where it may go on."""
    request = access_pb2.CheckMethodsRequest(methods=[START_SESSION.method], pool=pool)
    try:
        (verdict,) = (await client.call(CHECK_METHODS["jobmgr"], request)).verdicts
    except Unauthenticated as error:
        return f"you are not logged in any more: {error}"
    except PelotonError:
        return ""  # nobody can be asked now
    return "" if verdict.allowed else f"you may not run commands in this task any more: {verdict.reason}"


async def first(*works: Coroutine[Any, Any, str]) -> str:
    """Return what the first of some works returns, or raise what it raises; end the others."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task in ended).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
