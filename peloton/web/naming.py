"""Ids of jobs and of their runs in texts, named as people name them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

_ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_FOUND = re.compile(rf"(?P<run>(?P<of>{_ID})-(?P<instance>\d+)-\d+)|(?P<word>\bjob )?(?P<job>{_ID})")
"""A run, by the job's id, the instance and the number of the run; or a job."""


def jobs_in(texts: Iterable[str]) -> set[str]:
    """Return the ids of the jobs that texts name by their ids, or by those of their runs.

    An id alone may be that of something else: it counts behind the word `job` only.
    """
    found = (found for text in texts for found in _FOUND.finditer(text))
    return {each["of"] or each["job"] for each in found if each["run"] or each["word"]}


def named(text: str, names: Mapping[str, str]) -> Sequence[tuple[str, str]]:
    """Return a text in parts, each with the address that it leads to, or none: runs and jobs by their names.

    `names` are those of jobs, by their ids; a job that is not among them is shown by its id.
    """
    parts: list[tuple[str, str]] = []
    end = 0
    for found in _FOUND.finditer(text):
        if found["run"] or found["word"] or names.get(found["job"]):
            parts += [(text[end : found.start()], ""), _part(found, names)]
            end = found.end()
    return [part for part in (*parts, (text[end:], "")) if part[0]]


def _part(found: re.Match[str], names: Mapping[str, str]) -> tuple[str, str]:
    job_id = found["of"] or found["job"]
    job = names.get(job_id) or f"job {job_id}"
    if found["run"]:
        return f"instance {found['instance']} of {job}", f"/jobs/{job_id}/instances/{found['instance']}"
    return job, f"/jobs/{job_id}"
