"""Task queries carried out on a job, without a copy of what they leave out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from jobmgr.services.common.task_query import Batch, Found, Row, TaskQuery, cut, selected
from jobmgr.services.common.view import JobView
from peloton.model.task import TaskRuntime

NameOf = Callable[[int, TaskRuntime], str]
Naming = Callable[[Batch], Awaitable[NameOf]]
"""Returns what names the tasks of a batch."""


async def find(job: JobView, query: TaskQuery, naming: Naming) -> tuple[Sequence[Row], int]:
    """Return the page of a query, and the number of matches.

    Names and reasons are looked up for all tasks only where the query filters or sorts by them.
    """
    keys = {key for key, _ in query.page.order}
    named, reasons = bool(query.names) or "name" in keys, "reason" in keys
    found = Found()
    async for batch in job.batches():
        chosen = selected(query, batch)
        if named:
            name = await naming(chosen)
            chosen = [each for each in chosen if not query.names or name(*each) in query.names]
            found.names += [name(*each) for each in chosen]
        if reasons:
            found.reasons += [job.reason(*each) for each in chosen]
        found.instances += [instance for instance, _ in chosen]
        found.runtimes += [task for _, task in chosen]
    page, total = cut(query, found)
    return [row._replace(runtime=job.explained(row.instance, row.runtime)) for row in page], total
