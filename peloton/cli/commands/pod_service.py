"""The commands of `peloton pod` that name a pod: by the v1alpha PodService."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from peloton.cli import references
from peloton.cli.commands.stateless_reads import pagination
from peloton.cli.groups import Command
from peloton.cli.live_names import live_jobs, live_pods
from peloton.cli.params import INDEX, EnumName, Words
from peloton.cli.queries import page_options
from peloton.cli.session import Session, pass_session
from peloton.cli.versions import call_job
from peloton.client.rpcs import RPCS, request_of

if TYPE_CHECKING:
    import grpc

    from peloton.api.v1alpha.peloton_pb2 import PodID, PodName
    from peloton.api.v1alpha.pod.pod_pb2 import PodStatus


class PodRequest(Protocol):
    """A request that names a pod."""

    @property
    def pod_name(self) -> PodName:
        """The pod."""
        ...


class RunRequest(PodRequest, Protocol):
    """A request that names a pod and one of its runs."""

    @property
    def pod_id(self) -> PodID:
        """The run."""
        ...


Request = TypeVar("Request", bound=PodRequest)
OfRun = TypeVar("OfRun", bound=RunRequest)
Answer = TypeVar("Answer")

NAME = click.argument("name", metavar="JOB-INSTANCE", type=references.POD, shell_complete=live_pods)
"""The name of a pod."""


def _pod_states() -> Any:
    from peloton.api.v1alpha.pod import pod_pb2

    return pod_pb2.PodState.DESCRIPTOR


@click.command(cls=Command)
@NAME
@click.option("--statusonly", is_flag=True, help="Leave out the specs.")
@click.option("--limit", type=INDEX, default=0, show_default=True, help="Number of earlier runs to show too.")
@pass_session
def get(session: Session, name: str, statusonly: bool, limit: int) -> None:
    """Show a pod: the spec and the status of its current run."""
    from peloton.api.v1alpha.pod.svc import pod_svc_pb2 as pb

    request = pb.GetPodRequest(status_only=statusonly, limit=limit)
    response = _call(session, RPCS.pod_svc.GetPod, request, name)
    session.show_object(response, name)


@click.command(cls=Command)
@click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
@click.option("-s", "--states", type=EnumName(_pod_states), default="", help="Only pods in any of STATES.")
@click.option("--names", type=Words(), default="", help="Only pods with any of these names, JOB-INSTANCE.")
@click.option("--hosts", type=Words(), default="", help="Only pods on any of these hosts.")
@page_options("instance_id", "ASC")
@pass_session
def query(session: Session, /, job_id: str, **given: Any) -> None:
    """Find pods of a job by state, name and host."""
    from peloton.api.v1alpha import peloton_pb2
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
    from peloton.api.v1alpha.pod import pod_pb2
    from peloton.cli.service_rows import pod_table

    spec = pod_pb2.QuerySpec(
        pod_states=[pod_pb2.PodState.ValueType(state) for state in given["states"]],
        names=[peloton_pb2.PodName(value=name) for name in given["names"]],
        hosts=given["hosts"],
        pagination=pagination(given["limit"], given["offset"], given["sort"], given["sortorder"]),
    )
    request = pb.QueryPodsRequest(
        job_id=peloton_pb2.JobID(value=job_id), spec=spec, summary_only=not session.json
    )
    response = call_job(session, RPCS.stateless_svc.QueryPods, request)
    session.show(response, lambda: pod_table((_name(pod.status), pod.status) for pod in response.pods))


def _control(
    verb: str, rpc: grpc.UnaryUnaryMultiCallable[Request, Answer], done: str, summary: str
) -> click.Command:
    """Return a command that calls an RPC for a pod; `done` says what becomes of the pod."""

    @click.command(verb, cls=Command, help=summary)
    @NAME
    @pass_session
    def control(session: Session, name: str) -> None:
        session.show(_call(session, rpc, request_of(rpc), name), lambda: f"Pod {name} {done}")

    return control


start = _control("start", RPCS.pod_svc.StartPod, "is being started", "Start a pod that was stopped.")
stop = _control("stop", RPCS.pod_svc.StopPod, "is being stopped", "Stop a pod.")
refresh = _control(
    "refresh", RPCS.pod_svc.RefreshPod, "refreshed", "Have the job manager read a pod from the store again."
)


@click.command(cls=Command)
@NAME
@click.option("--check-sla", is_flag=True, help="Only if the job's SLA allows one more unavailable instance.")
@pass_session
def restart(session: Session, name: str, check_sla: bool) -> None:
    """Stop a pod and start it again."""
    from peloton.api.v1alpha.pod.svc import pod_svc_pb2 as pb

    request = pb.RestartPodRequest(check_sla=check_sla)
    response = _call(session, RPCS.pod_svc.RestartPod, request, name)
    session.show(response, lambda: f"Pod {name} is being restarted")


@click.command("events-v1alpha", cls=Command)
@NAME
@click.option("-p", "--podid", "run", default="", help="Only this run: its pod id or number.")
@pass_session
def events(session: Session, name: str, run: str) -> None:
    """Show the events of a pod's last 10 runs, newest first."""
    from peloton.cli.service_rows import pod_event_table

    response = _call_run(session, RPCS.pod_svc.GetPodEvents, name, run)
    session.show(response, lambda: pod_event_table(response.events))


@click.command(cls=Command)
@NAME
@click.option(
    "-f", "--filename", default="stdout", show_default=True, help="The file of the sandbox to show."
)
@click.option("-p", "--podid", "run", default="", help="Of this run: its pod id or number.")
@pass_session
def logs(session: Session, name: str, filename: str, run: str) -> None:
    """Print the output of a pod's current run.

    With -j, the file is the text of one JSON object.
    """
    from peloton.client.sandbox import Sandbox

    response = _call_run(session, RPCS.pod_svc.BrowsePodSandbox, name, run)
    agent = session.agent(response)
    file = Sandbox(agent, tuple(response.paths)).file(filename)
    if session.json:
        text = b"".join(file.download()).decode(errors="replace")
        session.show({"podName": name, "filename": filename, "text": text}, str)
        return
    for piece in file.download():
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


@click.command(cls=Command)
@NAME
@pass_session
def cache(session: Session, name: str) -> None:
    """Show what the job manager holds of a pod in memory."""
    response = _call(session, RPCS.pod_svc.GetPodCache, request_of(RPCS.pod_svc.GetPodCache), name)
    session.show_object(response, name)


@click.command("delete-events", cls=Command)
@NAME
@click.argument("run", metavar="PODID")
@pass_session
def delete_events(session: Session, name: str, run: str) -> None:
    """Delete the events of the run PODID (a pod id, or a run's number) and of those before it."""
    response = _call_run(session, RPCS.pod_svc.DeletePodEvents, name, run)
    session.show(response, lambda: f"Events of pod {name} deleted up to {_pod_id(name, run)}")


POD_COMMANDS = (get, query, start, stop, restart, events, logs, refresh, cache, delete_events)


def _call(
    session: Session, rpc: grpc.UnaryUnaryMultiCallable[Request, Answer], request: Request, name: str
) -> Answer:
    """Call an RPC of the PodService for the pod `name`."""
    request.pod_name.value = name
    return session.call(rpc, request)


def _call_run(
    session: Session, rpc: grpc.UnaryUnaryMultiCallable[OfRun, Answer], name: str, run: str
) -> Answer:
    """Call an RPC of the PodService for the pod `name`, and its run where one is given."""
    request = request_of(rpc)
    if run:
        request.pod_id.value = _pod_id(name, run)
    return _call(session, rpc, request, name)


def _pod_id(name: str, run: str) -> str:
    """Return the id of a run given by its number; return any other text as it is."""
    return f"{name}-{run}" if run.isascii() and run.isdecimal() else run


def _name(status: PodStatus) -> str:
    return status.pod_id.value.rpartition("-")[0]
