"""Helpers that bring a store into states which no daemon's own calls lead to."""

from __future__ import annotations

from collections.abc import Collection

from peloton.model.ids import JobId
from storage.interface import Store


async def recreate(store: Store, job_id: JobId, without: Collection[int] = ()) -> None:
    """Store the job anew as an active one, without the rows of these instances."""
    runtime = await store.jobs.runtime(job_id)
    spec = await store.jobs.config(job_id, runtime.config_version)
    pages = [page async for page in store.tasks.list(job_id)]
    kept = {i: row for page in pages for i, row in page.items() if i not in without}
    await store.jobs.delete(job_id)
    await store.jobs.create(job_id, spec, runtime)
    await store.write_all(job_id, kept)
