"""Pods of a selection: all of them, where they are not too many, or a page of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import QueryParams

from peloton.model.ids import is_uuid
from peloton.model.plural import plural
from peloton.web.kube.core.jobs import INDEX
from peloton.web.kube.core.objects import Held
from peloton.web.kube.core.refusals import Refusal
from peloton.web.kube.core.selectors import labels_match, selected
from peloton.web.kube.core.values import Object
from peloton.web.kube.reading import TASKS_PER_CALL, Reader, instances_of

MOST_PODS = 20_000
"""Pods that are read at a time: of a list, of a watch, and of a page whose selector few of them match."""
LARGEST_PAGE = 10_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A page that is asked for."""

    limit: int
    job_id: str = ""
    instance: int = 0

    @classmethod
    def of(cls, query: QueryParams) -> Asked | None:
        """Read the parameters; None where no page is asked for. Raises Refusal."""
        text, token = query.get("limit", ""), query.get("continue", "")
        if not text and not token:
            return None
        if text and (not text.isascii() or not text.isdecimal() or len(text) > 9):
            raise Refusal(400, f"limit: {text[:50]!r} is no number")
        limit = min(int(text or 0) or LARGEST_PAGE, LARGEST_PAGE)
        if not token:
            return cls(limit) if int(text) else None
        try:
            job_id, instance = json.loads(base64.urlsafe_b64decode(token[:200]))
        except (ValueError, TypeError):
            job_id, instance = None, None
        if not isinstance(job_id, str) or not is_uuid(job_id) or type(instance) is not int or instance < 0:
            raise Refusal(400, "continue: it is not what a list said before")
        return cls(limit, job_id, instance)


def token_of(job_id: str, instance: int) -> str:
    """Return what continues a list at an instance."""
    return base64.urlsafe_b64encode(json.dumps([job_id, instance]).encode()).decode()


@dataclass(frozen=True, slots=True)
class Few:
    """The pods are few enough to be known all. `scope` says of which collection they are all."""

    pods: list[Object]
    scope: str = ""


async def few(reader: Reader, namespace: str, label_selector: str, field_selector: str) -> Few | list[Held]:
    """Return the pods that a selection may have, or the jobs of those that are too many.

    Where a namespace has few, all of it is read, and shared with other selections.
    """
    jobs = await reader.jobs(namespace)
    if _count(jobs) <= MOST_PODS:
        return Few(await reader.pods(jobs))
    name = selected(field_selector, "metadata.name")
    if name and namespace:
        return Few(await _named(reader, namespace, name), f"{namespace}?name={name}")
    chosen = [job for job in jobs if _may_match(job, label_selector)]
    if _count(chosen) > MOST_PODS:
        return chosen
    return Few(await reader.pods(chosen), f"{namespace}?labels={label_selector}")


def _count(jobs: Iterable[Held]) -> int:
    return sum(map(instances_of, jobs))


async def _named(reader: Reader, namespace: str, name: str) -> list[Object]:
    try:
        return [await reader.pod(namespace, name)]
    except Refusal as refusal:
        if refusal.code == 404:
            return []
        raise


def _may_match(job: Held, label_selector: str) -> bool:
    """Return whether pods of a job may be selected. Each pod has its job's labels, and its index."""
    if INDEX in label_selector:
        return True
    return labels_match(label_selector)({"metadata": {"labels": job.pod_labels}})


def too_many(jobs: Iterable[Held]) -> Refusal:
    """Return the refusal of a collection that is not read at a time."""
    advice = "select pods of fewer jobs by labels, such as job-name, or list them by pages (limit)"
    return Refusal(
        413, f"{plural(_count(jobs), 'pod')}: at most {MOST_PODS:,} are listed or watched; {advice}"
    )


async def page(
    reader: Reader, jobs: Iterable[Held], asked: Asked, matches: Callable[[Mapping[str, Any]], bool]
) -> tuple[list[Object], str]:
    """Return a page, and what continues the list; empty at its end. It may have less than is asked for."""
    found: list[Object] = []
    read = 0
    for job in sorted(jobs, key=lambda each: each.job_id):
        if job.job_id < asked.job_id:
            continue
        first, end = asked.instance if job.job_id == asked.job_id else 0, instances_of(job)
        while first < end:
            if len(found) >= asked.limit or read >= MOST_PODS:
                return found, token_of(job.job_id, first)
            last = min(end, first + min(TASKS_PER_CALL, asked.limit - len(found)))
            found += filter(matches, await reader.some_pods(job, first, last))
            read += last - first
            first = last
    return found, ""
