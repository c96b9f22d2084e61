"""Task queries carried out on a job, without a copy of what they leave out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from jobmgr.services.common.task_query import Row, TaskQuery, cut, matches
from jobmgr.services.common.view import JobView
from peloton.model.task import TaskRuntime

Batch = Sequence[tuple[int, TaskRuntime]]
NameOf = Callable[[int, TaskRuntime], str]
Naming = Callable[[Batch], Awaitable[NameOf]]
"""Returns what names the tasks of a batch."""


async def find(job: JobView, query: TaskQuery, naming: Naming) -> tuple[Sequence[Row], int]:
    """Return the page of a query, and the number of matches.

    Names and reasons are looked up for all tasks only where the query filters or sorts by them.
    """
    keys = {key for key, _ in query.page.order}
    named, reasons = bool(query.names) or "name" in keys, "reason" in keys
    found: list[Row] = []
    async for batch in job.batches():
        name = await naming(batch) if named else _unnamed
        reason = job.reason if reasons else _unnamed
        rows = (Row(i, name(i, task), task, reason(i, task)) for i, task in batch)
        found += [row for row in rows if matches(query, row)]
    page, total = cut(query, found)
    return [row._replace(runtime=job.explained(row.instance, row.runtime)) for row in page], total


def _unnamed(instance: int, task: TaskRuntime) -> str:
    return ""
