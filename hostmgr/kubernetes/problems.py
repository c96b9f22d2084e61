"""What Kubernetes refuses for now, as texts for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hostmgr.kubernetes.core.evictions import WaitingEviction
from peloton.model.ids import parse_mesos_task_id, task_id
from peloton.model.plural import plural
from peloton.model.problems import NAMED, Problem

RIGHTS = "`kubectl apply -f deploy/kubernetes/rbac.yaml` gives hostmgr its rights"


def eviction_problems(
    waiting: Iterable[WaitingEviction], hostname: Callable[[str], str]
) -> Iterator[Problem]:
    """Yield what is wrong with the evictions that wait: the first of them by name."""
    found = list(waiting)
    for each in found[:NAMED]:
        yield _waits(each, hostname(each.node))
    if len(found) > NAMED:
        yield Problem("note", f"{plural(len(found) - NAMED, 'further eviction')} waiting")


def template_problems(refusal: str) -> Iterator[Problem]:
    """Yield what is wrong with the site's template of pods; an empty text: nothing."""
    if refusal:
        text = f"Nothing is launched: Kubernetes refuses pods of kubernetes.pod_template: {refusal}"
        remedy = "mend the settings of hostmgr, or make what they name; it is tried again by itself"
        yield Problem("bad", text, "", remedy)


def _waits(eviction: WaitingEviction, host: str) -> Problem:
    run = parse_mesos_task_id(eviction.run)
    task = task_id(run.job_id, run.instance)
    remedy = f"it is tried again by itself; `peloton task stop {run.job_id} {run.instance}` ends it at once"
    return Problem(
        "warn",
        f"{task} stays on {host}, which is in maintenance: {eviction.text}",
        f"/hosts/{host}",
        RIGHTS if eviction.forbidden else remedy,
    )
