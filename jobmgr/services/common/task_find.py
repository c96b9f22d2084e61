"""Task queries carried out on a job, without a copy of what they leave out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

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
        name = await naming(batch) if named else _nameless
        tasks: Iterable[tuple[int, TaskRuntime]] = batch
        if reasons:
            tasks = [(instance, job.explained(instance, task)) for instance, task in batch]
        found += [row for i, task in tasks if matches(query, row := Row(i, name(i, task), task))]
    rows, total = cut(query, found)
    return [row._replace(runtime=job.explained(row.instance, row.runtime)) for row in rows], total


def _nameless(instance: int, task: TaskRuntime) -> str:
    return ""
