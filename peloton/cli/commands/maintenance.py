"""`peloton host maintenance`: take hosts out of use and bring them back."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from peloton.cli.groups import Group
from peloton.cli.live_names import live_hosts
from peloton.cli.output import say, table
from peloton.cli.session import Session, pass_session
from peloton.errors import PelotonError

if TYPE_CHECKING:
    from peloton.api.v0.host.host_pb2 import HostInfo

TASKS_SHOWN = 20
"""Tasks of one host whose states `status` reads and prints."""
_TASK_HEADS = ("Host", "Task", "State", "Message")


@click.group(cls=Group)
def maintenance() -> None:
    """Take hosts out of use for maintenance, and bring them back.

    A host goes UP -> DRAINING -> DRAINED -> DOWN, and with `complete` back to UP.
    """


@maintenance.command()
@click.argument("hosts", nargs=-1, required=True, metavar="HOST...", shell_complete=live_hosts)
@click.option("-f", "--force", is_flag=True, help="Do not ask where tasks would have no other host.")
@pass_session
def start(session: Session, hosts: tuple[str, ...], force: bool) -> None:
    """Begin the maintenance of hosts, given apart or with commas.

    Their tasks are killed and run elsewhere; services keep to maximumUnavailableInstances, so that a host may
    drain for a while. A host without tasks goes DOWN: then its agent has ended and it can be worked on. Of
    several hosts, none starts where one of them is unknown.
    """
    from peloton.api.v0.host.svc import host_svc_pb2 as pb

    names = _names(hosts)
    before = _infos(session, names)
    fresh = [name for name in names if name in before and _short(before[name].state) == "UP"]
    _warn(session, fresh, force)
    to_move = _runs(session, fresh)
    request = (
        pb.StartMaintenanceRequest(hostname=names[0])
        if len(names) == 1
        else pb.StartMaintenanceRequest(hostnames=names)
    )
    session.call("host_svc", "StartMaintenance", request)
    after, runs = _infos(session, names), _runs(session, names)
    tasks = {**runs, **to_move}
    lines = [_started(name, name in fresh, after.get(name), len(tasks[name])) for name in names]
    lines.append("Follow it with: peloton host maintenance status")
    session.show(_answer(after, runs), lambda: "\n".join(lines))


@maintenance.command()
@click.argument("hosts", nargs=-1, required=True, metavar="HOST...", shell_complete=live_hosts)
@pass_session
def complete(session: Session, hosts: tuple[str, ...]) -> None:
    """End the maintenance of hosts that are DOWN, given apart or with commas.

    They take tasks again as soon as their agents are running and registered. Of several hosts, none is
    brought up where one of them is not DOWN.
    """
    from peloton.api.v0.host.svc import host_svc_pb2 as pb

    names = _names(hosts)
    request = (
        pb.CompleteMaintenanceRequest(hostname=names[0])
        if len(names) == 1
        else pb.CompleteMaintenanceRequest(hostnames=names)
    )
    session.call("host_svc", "CompleteMaintenance", request)
    after = _infos(session, names)
    session.show(_answer(after, {}), lambda: "\n".join(_completed(name, after.get(name)) for name in names))


@maintenance.command()
@click.argument("hosts", nargs=-1, metavar="[HOST...]", shell_complete=live_hosts)
@pass_session
def status(session: Session, hosts: tuple[str, ...]) -> None:
    """Show the hosts in maintenance, the tasks that are left on them, and what these wait for."""
    names = _names(hosts) if hosts else []
    infos = _infos(session, names)
    draining = [name for name, info in infos.items() if _short(info.state) == "DRAINING"]
    runs = _runs(session, draining)
    rows = [
        (name, _short(info.state), _short(info.goal_state), len(runs.get(name, ())))
        for name, info in infos.items()
    ]

    def human() -> str:
        missing = [f"host {name} is unknown" for name in names if name not in infos]
        if not rows:
            return "; ".join(missing) or "No host is in maintenance"
        text = table(("Hostname", "State", "Goal State", "Tasks Left"), rows)
        tasks = [row for name in draining for row in _task_rows(session, name, runs[name])]
        return f"{text}\n\n{table(_TASK_HEADS, tasks)}" if tasks else text

    session.show(_answer(infos, runs), human)


def _names(hosts: Sequence[str]) -> list[str]:
    """Return the names, each once, in order."""
    names = list(dict.fromkeys(name.strip() for given in hosts for name in given.split(",")))
    if not all(names):
        raise click.UsageError("a host has an empty name")
    return names


def _warn(session: Session, names: Sequence[str], force: bool) -> None:
    """Print which jobs would have no host for instances, and ask at a terminal whether to go on."""
    from peloton.private.jobmgr.maintenance import maintenance_pb2 as pb

    if not names:
        return
    try:
        answer = session.call("maintenance_svc", "CheckHosts", pb.CheckHostsRequest(hostnames=names))
    except PelotonError as error:
        say(f"It is not known whether jobs would have no host left: {error}")
        return
    for concern in answer.concerns:
        say(f"Warning: {concern.text}")
    if answer.concerns and not force and sys.stdin.isatty():
        click.confirm("Start the maintenance nevertheless?", abort=True, err=True)


def _infos(session: Session, names: Sequence[str]) -> dict[str, HostInfo]:
    """Return hosts by name; without names all that are in maintenance."""
    from peloton.api.v0.host import host_pb2
    from peloton.api.v0.host.svc import host_svc_pb2 as pb

    request = pb.QueryHostsRequest()
    if not names:
        request.host_states.extend(
            (host_pb2.HOST_STATE_DRAINING, host_pb2.HOST_STATE_DRAINED, host_pb2.HOST_STATE_DOWN)
        )
    answer = session.call("host_svc", "QueryHosts", request)
    return {info.hostname: info for info in answer.host_infos if not names or info.hostname in names}


def _runs(session: Session, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the runs on each host."""
    from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb

    runs: dict[str, list[str]] = {name: [] for name in names}
    if names:
        answer = session.call("hostmgr_svc", "GetHostsByQuery", pb.GetHostsByQueryRequest(hostnames=names))
        for host in answer.hosts:
            runs.setdefault(host.hostname, []).extend(sorted(task.value for task in host.tasks))
    return runs


def _task_rows(session: Session, host: str, runs: Sequence[str]) -> list[tuple[object, ...]]:
    """Return the tasks on a host, with what jobmgr says about each."""
    rows: list[tuple[object, ...]] = [(host, run, *_task(session, run)) for run in runs[:TASKS_SHOWN]]
    if len(runs) > TASKS_SHOWN:
        rows.append((host, f"and {len(runs) - TASKS_SHOWN} more", "", ""))
    return rows


def _task(session: Session, run: str) -> tuple[str, str]:
    """Return the state and the message of a run's task."""
    from peloton.api.v0.task import task_pb2

    job_id, _, instance = run.rpartition("-")[0].rpartition("-")
    if not instance.isdigit():
        return "", "not a task of Peloton"
    request = task_pb2.GetRequest(instanceId=int(instance))
    request.jobId.value = job_id
    try:
        runtime = session.call("task_svc", "Get", request).result.runtime
    except PelotonError as error:
        return "", str(error)
    return task_pb2.TaskState.Name(runtime.state), runtime.message


def _started(name: str, fresh: bool, info: HostInfo | None, tasks: int) -> str:
    """Describe a host after the start; `tasks` are those to move, or those that are left."""
    state = _short(info.state) if info is not None else "DRAINING"
    if not fresh:
        left = f": {_tasks(tasks)} left" if tasks else ": no task is left on it"
        return f"Host {name} is {state} already" + (left if state == "DRAINING" else "")
    if not tasks:
        return f"Host {name} is {state}: it has no tasks" + ("" if state == "DOWN" else ", and goes DOWN")
    return f"Host {name} is {state}: {tasks} task{'s' * (tasks > 1)} to move, then it goes DOWN"


def _tasks(count: int) -> str:
    return "1 task is" if count == 1 else f"{count} tasks are"


def _completed(name: str, info: HostInfo | None) -> str:
    if info is not None and _short(info.state) == "DOWN":
        return f"Host {name} is being brought up: the Mesos master has not confirmed it yet"
    return f"Host {name} is UP: it takes tasks as soon as its agent is running and registered"


def _answer(infos: Mapping[str, HostInfo], runs: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    from peloton.client.plain import as_json

    return [{**as_json(info), "tasks": list(runs.get(name, ()))} for name, info in infos.items()]


def _short(state: Any) -> str:
    from peloton.api.v0.host import host_pb2

    return host_pb2.HostState.Name(state).removeprefix("HOST_STATE_")
