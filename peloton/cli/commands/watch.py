"""`peloton watch`: print changes of jobs and pods as they come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from peloton.cli import references
from peloton.cli.groups import Group
from peloton.cli.live_names import live_jobs
from peloton.cli.params import Labels
from peloton.cli.session import Session, pass_session
from peloton.client.rpcs import RPCS

if TYPE_CHECKING:
    from peloton.api.v1alpha.watch.svc.watch_svc_pb2 import WatchResponse

LABELS = click.option("-l", "--labels", type=Labels(), default="", help="Only with all of these labels.")


@click.group(cls=Group)
def watch() -> None:
    """Print changes of jobs and pods as they come."""


@watch.command()
@click.argument("job_ids", metavar="[JOB]...", type=references.JOB, nargs=-1, shell_complete=live_jobs)
@LABELS
@pass_session
def job(session: Session, job_ids: tuple[str, ...], labels: list[tuple[str, str]]) -> None:
    """Watch services: these, or all."""
    from peloton.api.v1alpha import peloton_pb2
    from peloton.api.v1alpha.watch import watch_pb2

    wanted = watch_pb2.StatelessJobFilter(
        job_ids=[peloton_pb2.JobID(value=job_id) for job_id in job_ids], labels=_labels(labels)
    )
    _watch(session, stateless_job_filter=wanted)


@watch.command()
@click.argument("job_id", metavar="[JOB]", type=references.JOB, default="", shell_complete=live_jobs)
@click.argument("pods", metavar="[POD]...", nargs=-1)
@LABELS
@pass_session
def pod(session: Session, job_id: str, pods: tuple[str, ...], labels: list[tuple[str, str]]) -> None:
    """Watch pods: these of a job, all of a job, or all."""
    from peloton.api.v1alpha import peloton_pb2
    from peloton.api.v1alpha.watch import watch_pb2

    names = [peloton_pb2.PodName(value=name) for name in pods]
    wanted = watch_pb2.PodFilter(pod_names=names, labels=_labels(labels))
    if job_id:
        wanted.job_id.value = job_id
    _watch(session, pod_filter=wanted)


@watch.command()
@click.argument("watch_id", metavar="WATCH")
@pass_session
def cancel(session: Session, watch_id: str) -> None:
    """End a watch by the id that it printed first."""
    from peloton.api.v1alpha.watch.svc import watch_svc_pb2 as pb

    response = session.call(RPCS.watch_svc.Cancel, pb.CancelRequest(watch_id=watch_id))
    session.show(response, lambda: f"Watch {watch_id} cancelled")


def _labels(labels: Iterable[tuple[str, str]]) -> list[Any]:
    from peloton.api.v1alpha import peloton_pb2

    return [peloton_pb2.Label(key=key, value=value) for key, value in labels]


def _watch(session: Session, **filters: Any) -> None:
    """Print messages until the watch ends, which is a failure, or the user interrupts it."""
    from peloton.api.v1alpha.watch.svc import watch_svc_pb2 as pb

    for message in session.stream(RPCS.watch_svc.Watch, pb.WatchRequest(**filters), endless=True):
        session.show(message, lambda message=message: "\n".join(_lines(message)))  # type: ignore[misc]


def _lines(message: WatchResponse) -> list[str]:
    from peloton.api.v1alpha.job.stateless import stateless_pb2
    from peloton.api.v1alpha.pod import pod_pb2

    lines = [f"watch {message.watch_id}"] if message.watch_id else []
    for job in message.stateless_jobs:
        state = stateless_pb2.JobState.Name(job.status.state).removeprefix("JOB_STATE_")
        lines.append(f"{message.revision} job {job.job_id.value} {state} {job.name}")
    lines += [
        f"{message.revision} job {job.value} does not exist" for job in message.stateless_jobs_not_found
    ]
    for pod in message.pods:
        state = pod_pb2.PodState.Name(pod.status.state).removeprefix("POD_STATE_")
        lines.append(f"{message.revision} pod {pod.pod_name.value} {state} {pod.status.host}".rstrip())
    lines += [f"{message.revision} pod {pod.value} does not exist" for pod in message.pods_not_found]
    return lines
