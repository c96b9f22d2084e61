"""Keys of volumes: the id of a volume begins with its job's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from peloton.model.ids import JobId
from peloton.model.volume import Volume
from storage.codec import VOLUME


def ids_of(job_id: JobId) -> tuple[str, str]:
    """Return the first id that a volume of the job can have, and the first one after all of them."""
    return f"{job_id}-", f"{job_id}."


def decoded(rows: Iterable[Sequence[str]]) -> tuple[Volume, ...]:
    """Decode rows of one column, in the order of jobs, instances and age."""
    volumes = (VOLUME.decode(text) for (text,) in rows)
    return tuple(sorted(volumes, key=lambda each: (each.job_id, each.instance, each.created_at)))
