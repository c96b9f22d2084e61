"""`peloton host maintenance`: take hosts out of use and bring them back."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from peloton.cli.groups import Group
from peloton.cli.host_states import LOST, state_of
from peloton.cli.live_names import live_hosts
from peloton.cli.output import say, table
from peloton.cli.session import Session, pass_session
from peloton.client.rpcs import RPCS
from peloton.errors import PelotonError
from peloton.model.plural import plural

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

    names = names_of(hosts)
    before = _infos(session, names)
    # A host manager may not know a host yet, or list it as lost: its agent has just registered. Then the
    # host was in no maintenance either.
    fresh = [name for name in names if name not in before or state_of(before[name]) in ("UP", LOST)]
    _warn(session, fresh, force)
    to_move = _runs(session, fresh)
    request = (
        pb.StartMaintenanceRequest(hostname=names[0])
        if len(names) == 1
        else pb.StartMaintenanceRequest(hostnames=names)
    )
    session.call(RPCS.host_svc.StartMaintenance, request)
    after, runs = _infos(session, names), _runs(session, names)
    tasks = {**runs, **to_move}
    begun = _begun(session) if len(fresh) < len(names) else {}
    lines = [
        _started(name, after.get(name), len(tasks[name]))
        if name in fresh
        else _in_maintenance(name, after.get(name), len(tasks[name]), begun.get(name, "already"))
        for name in names
    ]
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

    names = names_of(hosts)
    request = (
        pb.CompleteMaintenanceRequest(hostname=names[0])
        if len(names) == 1
        else pb.CompleteMaintenanceRequest(hostnames=names)
    )
    session.call(RPCS.host_svc.CompleteMaintenance, request)
    after = _infos(session, names)
    session.show(_answer(after, {}), lambda: "\n".join(_completed(name, after.get(name)) for name in names))


@maintenance.command()
@click.argument("hosts", nargs=-1, metavar="[HOST...]", shell_complete=live_hosts)
@pass_session
def status(session: Session, hosts: tuple[str, ...]) -> None:
    """Show the hosts in maintenance, the tasks that are left on them, and what these wait for."""
    names = names_of(hosts) if hosts else []
    infos = _infos(session, names)
    draining = [name for name, info in infos.items() if state_of(info) == "DRAINING"]
    runs = _runs(session, draining)
    rows = [(name, state_of(info), _goal(info), len(runs.get(name, ()))) for name, info in infos.items()]

    def human() -> str:
        missing = [f"host {name} is unknown" for name in names if name not in infos]
        if not rows:
            return "; ".join(missing) or "No host is in maintenance"
        text = table(("Hostname", "State", "Goal State", "Tasks Left"), rows)
        tasks = [row for name in draining for row in _task_rows(session, name, runs[name])]
        return f"{text}\n\n{table(_TASK_HEADS, tasks)}" if tasks else text

    session.show(_answer(infos, runs), human)


def names_of(hosts: Sequence[str]) -> list[str]:
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
        answer = session.call(RPCS.maintenance_svc.CheckHosts, pb.CheckHostsRequest(hostnames=names))
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

    request = pb.QueryHostsRequest(include_lost=bool(names))
    if not names:
        request.host_states.extend(
            (host_pb2.HOST_STATE_DRAINING, host_pb2.HOST_STATE_DRAINED, host_pb2.HOST_STATE_DOWN)
        )
    answers = session.call_clusters(RPCS.host_svc.QueryHosts, request)
    found = (info for answer in answers for info in answer.host_infos)
    return {info.hostname: info for info in found if not names or info.hostname in names}


def _runs(session: Session, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the runs on each host."""
    from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb

    runs: dict[str, list[str]] = {name: [] for name in names}
    if names:
        answer = session.call(RPCS.hostmgr_svc.GetHostsByQuery, pb.GetHostsByQueryRequest(hostnames=names))
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
        runtime = session.call(RPCS.task_svc.Get, request).result.runtime
    except PelotonError as error:
        return "", str(error)
    return task_pb2.TaskState.Name(runtime.state), runtime.message


def _begun(session: Session) -> dict[str, str]:
    """Return since when the hosts in maintenance are in their states, and who began it, where known."""
    from peloton.private.hostmgr.history import history_pb2 as pb

    try:
        answers = session.call_clusters(RPCS.host_history_svc.GetMaintenances, pb.GetMaintenancesRequest())
    except PelotonError:
        return {}
    return {
        each.hostname: f"since {each.since}" + (f", begun by {each.begun_by}" if each.begun_by else "")
        for answer in answers
        for each in answer.maintenances
        if each.since
    }


def _started(name: str, info: HostInfo | None, tasks: int) -> str:
    """Describe a host whose maintenance has begun; `tasks` are those to move."""
    state = _state(info)
    if not tasks:
        return f"Host {name} is {state}: it has no tasks" + ("" if state == "DOWN" else ", and goes DOWN")
    return f"Host {name} is {state}: {tasks} task{'s' * (tasks > 1)} to move, then it goes DOWN"


def _in_maintenance(name: str, info: HostInfo | None, tasks: int, since: str) -> str:
    """Describe a host that was in maintenance before, perhaps by a request of which no answer came."""
    state = _state(info)
    left = f": {_tasks(tasks)} left" if tasks else ": no task is left on it"
    return f"Host {name} is {state} {since}" + (left if state == "DRAINING" else "")


def _state(info: HostInfo | None) -> str:
    return state_of(info) if info is not None else "DRAINING"


def _tasks(count: int) -> str:
    return plural(count, "task is", "tasks are")


def _completed(name: str, info: HostInfo | None) -> str:
    if info is not None and state_of(info) == "DOWN":
        return f"Host {name} is being brought up: the Mesos master has not confirmed it yet"
    if info is not None and state_of(info) == "UP":
        return f"Host {name} is UP: its agent is registered"
    return f"Host {name} is not in maintenance any longer: start its agent, which is not registered"


def _answer(infos: Mapping[str, HostInfo], runs: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    from peloton.present.plain import as_json

    return [{**as_json(info), "tasks": list(runs.get(name, ()))} for name, info in infos.items()]


def _goal(info: HostInfo) -> str:
    from peloton.api.v0.host import host_pb2

    return host_pb2.HostState.Name(info.goal_state).removeprefix("HOST_STATE_")
